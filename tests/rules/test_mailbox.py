"""Signals as letters: order, coalescing, and none lost however many come."""

import signal

from pool.supervisor.signals import Letter, Mailbox


def posted(*signals: int) -> list[int]:
    mailbox = Mailbox()
    for at, signum in enumerate(signals):
        mailbox.post(signum, float(at))
    return [letter.signal for letter in mailbox.take_all()]


def test_letters_come_in_order_and_once() -> None:
    mailbox = Mailbox()
    mailbox.post(signal.SIGHUP, 1.0)
    mailbox.post(signal.SIGTERM, 2.0)

    assert mailbox.take_all() == [Letter(signal.SIGHUP, 1.0), Letter(signal.SIGTERM, 2.0)]
    assert mailbox.take_all() == []


def test_a_storm_of_one_signal_is_one_letter() -> None:
    assert posted(*[signal.SIGHUP] * 100_000, signal.SIGTERM) == [signal.SIGHUP, signal.SIGTERM]


def test_each_plus_and_minus_counts() -> None:
    assert posted(signal.SIGTTIN, signal.SIGTTIN, signal.SIGTTOU) == [signal.SIGTTIN, signal.SIGTTIN, signal.SIGTTOU]


def test_each_interrupt_keeps_its_own_time() -> None:
    mailbox = Mailbox()
    mailbox.post(signal.SIGINT, 1.0)
    mailbox.post(signal.SIGINT, 1.9)

    assert [letter.at for letter in mailbox.take_all()] == [1.0, 1.9]
