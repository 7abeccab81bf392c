"""A mailbox that looks whether a job has left it as it was."""

import os
import signal
from collections.abc import Iterator

import pytest

from pool.worker.mailbox import UNMOVED_BY, Mailbox


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    numbers = (signal.SIGTERM, signal.SIGURG, signal.SIGALRM, signal.SIGUSR1, *UNMOVED_BY)
    before = {number: signal.getsignal(number) for number in numbers}
    mailbox = Mailbox()
    mailbox.listen(lambda: None, lambda number, frame: None)
    yield mailbox
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    for number, handler in before.items():
        signal.signal(number, handler)
    os.close(mailbox.fd)
    os.close(mailbox._write_fd)


def test_an_untouched_one_is_whole(mailbox: Mailbox) -> None:
    assert mailbox.is_whole()
    assert mailbox.has_its_pipe()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, *UNMOVED_BY])
def test_each_handler_that_was_changed_is_seen_and_put_back(mailbox: Mailbox, number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    assert not mailbox.is_whole()
    mailbox.repair()
    assert mailbox.is_whole()


def test_a_signal_that_was_blocked_is_seen_and_let_through(mailbox: Mailbox) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    assert not mailbox.is_whole()
    mailbox.repair()
    assert mailbox.is_whole()


@pytest.mark.parametrize("made", [os.pipe, lambda: (os.open(os.devnull, os.O_RDONLY), os.dup(2))])
def test_another_file_in_the_place_of_its_pipe_is_no_pipe_of_its(mailbox: Mailbox, made: object) -> None:
    assert callable(made)
    fd, other = made()
    os.dup2(fd, mailbox.fd)
    assert not mailbox.has_its_pipe()
    os.close(fd)
    os.close(other)


def test_a_closed_pipe_is_seen_and_made_anew(mailbox: Mailbox) -> None:
    os.close(mailbox.fd)
    os.close(mailbox._write_fd)
    assert not mailbox.has_its_pipe()
    mailbox.reopen()
    assert mailbox.has_its_pipe()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert mailbox.empty()
