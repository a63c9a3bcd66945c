"""What the supervisor is told of the tasks in hand: changes only, once per second, and again if it did not arrive."""

import json

from engines.sdk.report import MAX_TASKS, TaskReport
from engines.sdk.task import Task


def task(number: int) -> Task:
    return Task(str(number), "j", "q", "q", "q", 1, 0, {}, {}, deadline=100.0, fraction=0.25, message="half of half")


class Socket:
    def __init__(self) -> None:
        self.said: list[tuple[str, ...]] = []
        self.works = True

    def send(self, *words: str, patience: float) -> bool:
        assert patience == 0.0
        self.said.append(words)
        return self.works


def test_a_change_is_told_once_and_nothing_without_one() -> None:
    socket = Socket()
    report = TaskReport(enabled=True, send=socket.send)
    report.send([], 1.0)
    report.changed()
    report.send([task(1)], 1.0)
    report.send([task(1)], 5.0)
    [(count, tasks)] = socket.said
    assert count == "X_DALSTON_RUNNING=1"
    [said] = json.loads(tasks.removeprefix("X_DALSTON_TASKS="))
    assert (said["task_id"], said["deadline_ms"], said["fraction"]) == ("1", 100_000, 0.25)


def test_many_changes_are_told_once_per_second_and_what_did_not_arrive_again() -> None:
    socket = Socket()
    report = TaskReport(enabled=True, send=socket.send)
    for at in (1.0, 1.2, 1.9, 2.1):
        report.changed()
        report.send([], at)
    assert len(socket.said) == 2
    socket.works = False
    report.changed()
    report.send([], 4.0)
    assert report.next_moment() == 5.0
    socket.works = True
    report.send([], 5.0)
    assert len(socket.said) == 4
    report.send([], 9.0)
    assert len(socket.said) == 4


def test_a_datagram_holds_some_and_says_how_many_there_are() -> None:
    socket = Socket()
    report = TaskReport(enabled=True, send=socket.send)
    report.changed()
    report.send([task(number) for number in range(100)], 1.0)
    assert socket.said[0][0] == "X_DALSTON_RUNNING=100"
    assert len(json.loads(socket.said[0][1].removeprefix("X_DALSTON_TASKS="))) == MAX_TASKS


def test_without_a_supervisor_nobody_is_told() -> None:
    socket = Socket()
    report = TaskReport(enabled=False, send=socket.send)
    report.changed()
    report.send([task(1)], 1.0)
    assert socket.said == []
