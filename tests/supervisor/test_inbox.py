"""The inbox wakes the main loop for signals, also while it closes."""

import signal
from collections.abc import Iterator

import pytest

from supervisor.inbox import HANDLED, Inbox


@pytest.fixture
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in HANDLED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_wakes_the_loop(handlers: None) -> None:
    inbox = Inbox()
    inbox.catch_signals()
    signal.raise_signal(signal.SIGHUP)
    inbox.wait(10)
    assert inbox.messages() == [signal.SIGHUP]
    inbox.close()


def test_signals_that_come_while_it_ends_are_no_error(handlers: None) -> None:
    inbox = Inbox()
    inbox.catch_signals()
    inbox.close()
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.raise_signal(number)
