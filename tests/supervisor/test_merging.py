"""What the parent asks of the kernel, and when, with a made-up kernel."""

import ctypes
import errno

import pytest

from pool.supervisor import merging
from pool.supervisor.merging import Merging

SET, GET = 67, 68


class Kernel:
    """Whether it merges, and every order to it; `error` is what it refuses with."""

    def __init__(self, *, merges: bool = False, error: int = 0) -> None:
        self.merges, self.error = merges, error
        self.orders: list[int] = []

    def prctl(self, option: int, value: int, *zeros: int) -> int:
        assert not any(zeros), "the kernel takes nothing else"
        if option == GET:
            return int(self.merges)
        self.orders.append(value)
        if self.error:
            ctypes.set_errno(self.error)
            return -1
        self.merges = bool(value)
        return 0


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings in the log."""
    sentences: list[str] = []
    monkeypatch.setattr(merging.log, "warning", sentences.append)
    return sentences


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch):
    """A parent under a kernel."""

    def under(kernel: Kernel) -> Merging:
        monkeypatch.setattr(merging, "_prctl", kernel.prctl)
        return Merging()

    return under


def test_each_change_is_asked_for_once(house, said: list[str]) -> None:
    kernel = Kernel()
    mine = house(kernel)
    for wanted in (False, True, True, False, False, True):
        mine.want(wanted)
        assert kernel.merges is wanted
    assert kernel.orders == [1, 0, 1]
    assert said == []


def test_what_the_unit_has_set_is_left_alone(house, said: list[str]) -> None:
    kernel = Kernel(merges=True)
    mine = house(kernel)
    for wanted in (False, True, False):
        mine.want(wanted)
    assert (kernel.orders, kernel.merges, said) == ([], True, [])


@pytest.mark.parametrize(
    ("error", "words"), [(errno.EINVAL, "Linux 6.4 with CONFIG_KSM can"), (errno.EPERM, "Operation not permitted")]
)
def test_a_refusal_is_told_once_with_the_key_and_the_remedy(house, said: list[str], error: int, words: str) -> None:
    mine = house(Kernel(error=error))
    mine.want(True)
    mine.want(True)
    (sentence,) = said
    assert "[pool] merge_memory" in sentence
    assert words in sentence
    assert "set it to false" in sentence


def test_after_a_refusal_there_is_nothing_to_take_back(house, said: list[str]) -> None:
    kernel = Kernel(error=errno.EINVAL)
    mine = house(kernel)
    mine.want(True)
    mine.want(False)
    assert kernel.orders == [1]


def test_what_could_not_be_taken_back_is_told_and_tried_again_with_the_next_change(house, said: list[str]) -> None:
    kernel = Kernel()
    mine = house(kernel)
    mine.want(True)
    kernel.error = errno.ENOMEM
    mine.want(False)
    kernel.error = 0
    mine.want(True)
    mine.want(False)
    assert (len(said), kernel.merges) == (1, False)
    assert "start jobpool again" in said[0]
