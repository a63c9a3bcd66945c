"""The watchdog's sign of life follows the progress of the slowest task."""

from engines.sdk.report import Watchdog
from engines.sdk.task import Task


def task(progress_at: float) -> Task:
    made = Task("t", "j", "q", "q", "q", 1, 0, {}, {})
    made.progress_at = progress_at
    return made


def make() -> tuple[Watchdog, list[str]]:
    sent: list[str] = []

    def send(*words: str) -> bool:
        sent.extend(words)
        return True

    watchdog = Watchdog(10.0, send)
    watchdog.runner_at = 0.0
    return watchdog, sent


def test_an_idle_engine_gives_signs_of_life_as_long_as_its_runner_comes_by() -> None:
    watchdog, sent = make()
    for now in (1.0, 2.0, 29.0, 31.0, 40.0):
        watchdog.tick([], now)
    assert len(sent) == 3


def test_progress_of_every_task_is_needed() -> None:
    watchdog, sent = make()
    quick, slow = task(1.0), task(1.0)
    watchdog.tick([quick, slow], 1.5)
    quick.progress_at = 3.0
    watchdog.tick([quick, slow], 3.5)
    assert len(sent) == 1
    slow.progress_at = 4.0
    quick.progress_at = 4.0
    watchdog.tick([quick, slow], 4.5)
    assert len(sent) == 2
