"""Logs: line-safe, stamped, rotated, within their limit, and never in the way of the child that writes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.logs import Logs
from supervisor.rotation import RotatingLog
from supervisor.spool import LIMIT
from tests.support import wait_until

STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z .*")


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    logs = Logs(tmp_path, max_bytes=1 << 20, keep=2)
    yield logs
    logs.close()


def disk(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.iterdir())


def test_every_line_is_stamped_and_whole(logs: Logs) -> None:
    output = logs.open("demo.0", "node.demo.0.a")
    os.write(output, b"first\nsec")
    wait_until(lambda: any("first" in line for line in logs.tail("demo.0")), what="the first line")
    assert not any("sec" in line for line in logs.tail("demo.0"))
    os.write(output, b"ond\n\xff\xfe not UTF-8\nlast without end")
    logs.finish("node.demo.0.a")
    lines = logs.tail("demo.0", engine_id="node.demo.0.a")
    assert [line.split("Z ", 1)[1] for line in lines] == [
        "first",
        "second",
        "\ufffd\ufffd not UTF-8",
        "last without end",
    ]
    assert all(STAMPED.fullmatch(line) for line in lines)


def test_the_tail_of_a_process_has_nothing_of_the_one_before(logs: Logs) -> None:
    for engine_id, text in (("n.demo.0.a", b"old\n"), ("n.demo.0.b", b"new\n")):
        os.write(logs.open("demo.0", engine_id), text)
        logs.finish(engine_id)
    assert [line[-3:] for line in logs.tail("demo.0", engine_id="n.demo.0.b")] == ["new"]


def test_rotation_keeps_the_newest_lines_within_the_limit(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "x.log", max_bytes=1000, keep=2)
    for number in range(1000):
        log.write(b"line %d\n" % number)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 3000
    assert log.tail(150)[-1] == "line 999"
    assert len(log.tail(150)) == 150  # reaches into the older file
    log.close()


def test_a_child_that_writes_without_end_stays_within_the_disk_limit_and_the_log_says_what_is_missing(
    logs: Logs, tmp_path: Path
) -> None:
    output = logs.open("demo.0", "n.demo.0.a")
    script = "import os\nline = b'x' * 99 + b'\\n'\nfor _ in range(200): os.write(1, line * 10000)"
    child = subprocess.Popen([sys.executable, "-c", script], stdout=output)
    child.wait(30)
    wait_until(lambda: disk(tmp_path) < 3 * (1 << 20) + LIMIT, what="disk within rotation limit plus spool limit")
    logs.finish("n.demo.0.a")
    lines = logs.tail("demo.0", 100_000)
    assert disk(tmp_path) <= 3 * (1 << 20) + 64 * 1024
    assert all(STAMPED.fullmatch(line) for line in lines)
    bodies = {line.split("Z ", 1)[1] for line in lines}
    assert bodies <= {"x" * 99, *(body for body in bodies if "bytes skipped" in body or body.startswith("---"))}


def test_a_child_is_not_slowed_by_its_log(logs: Logs, tmp_path: Path) -> None:
    """The contract says half the speed of a plain file; the figure is in the recovery bench."""
    output = logs.open("demo.0", "n.demo.0.a")
    assert os.fstat(output).st_mode & 0o170000 == 0o100000  # a regular file: no reader can block it
    logs.finish("n.demo.0.a")


def test_a_log_that_cannot_be_rotated_goes_on_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "x.log.1" / "full").mkdir(parents=True)  # a folder in the way
    log = RotatingLog(tmp_path / "x.log", max_bytes=100, keep=1)
    for number in range(50):
        log.write(b"line %d\n" % number)
    assert log.tail(1) == ["line 49"]
    assert log.lost == 0
    log.close()
