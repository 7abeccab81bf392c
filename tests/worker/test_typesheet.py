"""The file of job types: written once for each version of the code, by whoever comes first."""

import itertools
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pool.worker.typesheet import TYPES_FILE, code_of, publish

_numbers = itertools.count()


class Describer:
    """Says a text, and counts how often it was asked."""

    def __init__(self, text: str) -> None:
        self.text, self.asked = text, 0

    def __call__(self) -> str:
        self.asked += 1
        return self.text


def test_the_first_worker_of_a_version_describes_the_types_and_the_others_take_it(tmp_path: Path) -> None:
    describe = Describer("types")
    crew = [threading.Thread(target=publish, args=(tmp_path, "code 1", describe)) for _ in range(8)]
    for worker in crew:
        worker.start()
    for worker in crew:
        worker.join()
    assert describe.asked == 1 and (tmp_path / TYPES_FILE).read_text() == "types"


def test_other_code_is_described_anew_also_where_it_was_here_before(tmp_path: Path) -> None:
    old, new = Describer("old"), Describer("new")
    for made_from, describe in (("code 1", old), ("code two", new), ("code 1", old)):
        publish(tmp_path, made_from, describe)
        assert (tmp_path / TYPES_FILE).read_text() == describe.text
    assert (old.asked, new.asked) == (2, 1)


def test_a_file_that_was_removed_is_written_again(tmp_path: Path) -> None:
    describe = Describer("types")
    publish(tmp_path, "code", describe)
    (tmp_path / TYPES_FILE).unlink()
    publish(tmp_path, "code", describe)
    assert (tmp_path / TYPES_FILE).read_text() == "types"


def test_each_worker_finds_the_fault_of_a_type_that_cannot_be_described(tmp_path: Path) -> None:
    def fail() -> str:
        raise ValueError("no schema")

    publish(tmp_path, "good", Describer("types"))
    for _ in range(2):
        with pytest.raises(ValueError, match="no schema"):
            publish(tmp_path, "bad", fail)
    assert (tmp_path / TYPES_FILE).read_text() == "types"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a module that was imported last."""
    name = f"typesheet_example_{next(_numbers)}"
    file = tmp_path / f"{name}.py"
    file.write_text("size = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__(name)
    yield file
    del sys.modules[name]


def test_code_is_the_same_while_its_files_are(module: Path) -> None:
    known = len(sys.modules) - 1
    assert code_of("edition", known) == code_of("edition", known)


@pytest.mark.parametrize("change", ["edited", "replaced", "touched", "removed"])
def test_code_is_other_code_once_a_file_of_it_is_another(module: Path, change: str) -> None:
    known = len(sys.modules) - 1
    before, times = code_of("edition", known), (module.stat().st_atime_ns, module.stat().st_mtime_ns)
    if change == "edited":
        module.write_text("size = 10\n")
    elif change == "replaced":  # as by a deploy of the same age and size
        (module.parent / "new").write_text("size = 2\n")
        (module.parent / "new").replace(module)
    elif change == "removed":
        module.unlink()
    if change != "removed":
        os.utime(module, ns=(times[0], times[1] + (change == "touched")))
    assert code_of("edition", known) != before


def test_another_reading_of_the_configuration_is_another_version(module: Path) -> None:
    known = len(sys.modules) - 1
    assert code_of("one", known) != code_of("two", known)
