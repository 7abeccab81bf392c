"""A stage for each test; when a test fails, the supervisor's log is printed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.supervisor.stage import Stage


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    stage = getattr(item, "funcargs", {}).get("stage")
    if report.when == "call" and report.failed and isinstance(stage, Stage) and (stage.scene / "log").exists():
        report.sections.append(("supervisor's log", stage.log()[-8000:]))
    return report


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.close()
