"""Whole pools, on each backend in turn: every test opens its own house."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.helpers.house import House, open_house
from tests.helpers.servers import Server, running

__all__ = ["open_house"]

OpenHouse = Callable[..., House]
QUICK_RESTARTS = "[restart]\nfirst_delay = 0.05\nmax_delay = 0.1\nhealthy_after = 1\n"


@pytest.fixture
def server() -> Iterator[Server]:
    """A Redis that keeps what it has acknowledged."""
    with running(aof=True) as started:
        yield started


@pytest.fixture(params=["sqlite", "redis"])
def on_each_store(request: pytest.FixtureRequest, open_house: OpenHouse) -> OpenHouse:
    """As `open_house`; a second house of the same test has the same store."""
    if request.param == "redis":
        url = request.getfixturevalue("server").url
        return lambda **options: open_house(**{"backend": url, **options})
    first: list[House] = []

    def open_one(**options: object) -> House:
        if first:
            options = {"backend": first[0].url, "environ": {"LEDGER": str(first[0].ledger)}, **options}
        house = open_house(**options)
        first.append(house)
        return house

    return open_one


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    if os.geteuid():
        pytest.skip("needs the right to mount")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_up(path: Path) -> None:
    """To the last byte."""
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def with_setting(house: House, section: str, line: str) -> House:
    """Add a line to a section of the file; before the start."""
    text = house.config_file.read_text()
    house.config_file.write_text(text.replace(f"[{section}]", f"[{section}]\n{line}", 1))
    return house
