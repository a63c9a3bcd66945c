"""Reports of an engine to its supervisor: running tasks after a change, once per second; the watchdog."""

import json
from pathlib import Path

from engines.sdk.files import Workspace
from engines.sdk.process.report import MAX_TASKS, TaskReport, Watchdog
from engines.sdk.task import Task

FILES = Workspace(None, Path("none")).files_of("j", "t", 1, 0)


def task(number: int) -> Task:
    return Task(
        str(number), "j", "q", "q", "q", 1, 0, {}, {}, FILES, deadline=100.0, fraction=0.25, message="half of half"
    )


class Socket:
    def __init__(self) -> None:
        self.sent: list[tuple[str, ...]] = []
        self.works = True

    def send(self, *assignments: str, timeout_s: float) -> bool:
        assert timeout_s == 0.0
        self.sent.append(assignments)
        return self.works


def test_a_change_is_sent_once() -> None:
    socket = Socket()
    report = TaskReport(enabled=True, send=socket.send)
    report.send([], 1.0)
    report.changed()
    report.send([task(1)], 1.0)
    report.send([task(1)], 5.0)
    [(count, tasks)] = socket.sent
    assert count == "X_DALSTON_RUNNING=1"
    [first] = json.loads(tasks.removeprefix("X_DALSTON_TASKS="))
    assert (first["task_id"], first["deadline_ms"], first["fraction"]) == ("1", 100_000, 0.25)


def test_changes_are_sent_once_per_second_and_again_if_they_did_not_arrive() -> None:
    socket = Socket()
    report = TaskReport(enabled=True, send=socket.send)
    for at in (1.0, 1.2, 1.9, 2.1):
        report.changed()
        report.send([], at)
    assert len(socket.sent) == 2
    socket.works = False
    report.changed()
    report.send([], 4.0)
    assert report.due_at == 5.0
    socket.works = True
    report.send([], 5.0)
    assert len(socket.sent) == 4
    report.send([], 9.0)
    assert len(socket.sent) == 4


def test_a_datagram_holds_some_tasks_and_the_number_of_all() -> None:
    socket = Socket()
    report = TaskReport(enabled=True, send=socket.send)
    report.changed()
    report.send([task(number) for number in range(100)], 1.0)
    assert socket.sent[0][0] == "X_DALSTON_RUNNING=100"
    assert len(json.loads(socket.sent[0][1].removeprefix("X_DALSTON_TASKS="))) == MAX_TASKS


def test_without_a_supervisor_nothing_is_sent() -> None:
    socket = Socket()
    report = TaskReport(enabled=False, send=socket.send)
    report.changed()
    report.send([task(1)], 1.0)
    assert socket.sent == []


def task_with_progress(progress_at: float) -> Task:
    made = Task("t", "j", "q", "q", "q", 1, 0, {}, {}, FILES)
    made.progress_at = progress_at
    return made


def make_watchdog() -> tuple[Watchdog, list[str]]:
    sent: list[str] = []

    def send(*assignments: str) -> bool:
        sent.extend(assignments)
        return True

    watchdog = Watchdog(10.0, send)
    watchdog.runner_at = 0.0
    return watchdog, sent


def test_an_idle_engine_feeds_the_watchdog_while_its_runner_runs() -> None:
    watchdog, sent = make_watchdog()
    for now in (1.0, 2.0, 29.0, 31.0, 40.0):
        watchdog.tick([], now)
    assert len(sent) == 3


def test_the_watchdog_needs_progress_of_every_task() -> None:
    watchdog, sent = make_watchdog()
    quick, slow = task_with_progress(1.0), task_with_progress(1.0)
    watchdog.tick([quick, slow], 1.5)
    quick.progress_at = 3.0
    watchdog.tick([quick, slow], 3.5)
    assert len(sent) == 1
    slow.progress_at = 4.0
    quick.progress_at = 4.0
    watchdog.tick([quick, slow], 4.5)
    assert len(sent) == 2
