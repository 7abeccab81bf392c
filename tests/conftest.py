"""For every test: the long ones run only when asked for."""

import os
import signal

import pytest
from hypothesis import settings

# What runs before every release tries what it tried before: new cases are for `--full`, where somebody looks at them.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
# A CI runner or nohup may start us with signals ignored, and everything that we start would inherit that.
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run the long tests too (marked full)")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--full"):
        settings.load_profile("default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full") or "full" in (config.getoption("-m") or "") or os.environ.get("JOBPOOL_FULL"):
        return
    for item in items:
        if item.get_closest_marker("full"):
            item.add_marker(pytest.mark.skip(reason="long: run with --full"))
