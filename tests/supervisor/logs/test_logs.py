"""Logs: whole lines with timestamps, rotated within their limit; no child ever waits for its log."""

import contextlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from supervisor.logs import relay
from supervisor.logs.rotation import RotatingLog
from supervisor.logs.store import Logs
from tests.e2e.conftest import command_of
from tests.supervisor.node import Node
from tests.support import WAIT_TIMEOUT_S, wait_until

LIMIT = 3 << 20  # of the fixture: three files of 1 MiB
STAMPED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z .*")


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    logs = Logs(tmp_path, max_bytes=1 << 20, keep=2)
    yield logs
    logs.close()


def disk(folder: Path) -> int:
    used = 0
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # rotated away
            used += file.stat().st_blocks * 512
    return used


def test_every_line_is_stamped_and_whole(logs: Logs) -> None:
    output = logs.open("demo.0", "node.demo.0.a")
    os.write(output, b"first\nsec")
    wait_until(lambda: any("first" in text for text in logs.tail("demo.0")), what="the first line")
    assert not any("sec" in text for text in logs.tail("demo.0"))
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


SPAM = """
import os, sys
for _ in range(int(sys.argv[1])): os.write(1, (b"x" * 99 + b"\\n") * 10000)
os.write(1, b"last words\\n")
"""
LATE = """
import os, sys
sys.stdin.read()  # until our parent is gone
for _ in range(5): os.write(1, b"x" * (1 << 20))
print("end", file=sys.stderr)
"""
LEFT = """
import os, pathlib, subprocess, sys
from supervisor.logs import relay
from supervisor.logs.store import Logs
output = Logs(pathlib.Path(sys.argv[1]), 1 << 20, 1).open("demo.0", "a")
subprocess.Popen([sys.executable, "-c", sys.argv[2]], stdin=subprocess.PIPE, stdout=output)
os._exit(0)
"""


def start_spam(logs: Logs, mb: int, engine_id: str = "n.demo.0.a") -> subprocess.Popen[bytes]:
    child = subprocess.Popen([sys.executable, "-c", SPAM, str(mb)], stdout=logs.open("demo.0", engine_id))
    logs.handed_over(engine_id)
    return child


def bodies(logs: Logs) -> list[str]:
    return [line.split("Z ", 1)[1] for line in logs.tail("demo.0", 100_000)]


def test_a_child_that_writes_too_much_stays_within_its_disk_and_the_log_notes_the_loss(
    logs: Logs, tmp_path: Path
) -> None:
    child = start_spam(logs, 200)
    peak = 0
    while child.poll() is None:
        peak = max(peak, disk(tmp_path))
    logs.finish("n.demo.0.a")
    assert max(peak, disk(tmp_path)) <= LIMIT + 3 * 4096  # a file takes whole blocks
    assert all(STAMPED.fullmatch(line) for line in logs.tail("demo.0", 100_000))
    lines = bodies(logs)
    assert all(text in ("x" * 99, "last words") or "bytes skipped" in text or "starts" in text for text in lines)
    assert lines[-1] == "last words"
    assert any("bytes skipped" in text for text in lines)


def test_a_child_goes_on_while_its_output_is_not_read(logs: Logs) -> None:
    child = start_spam(logs, 20)
    with logs._lock:  # as when the supervisor is stopped, or its disk hangs
        assert child.wait(WAIT_TIMEOUT_S) == 0
    logs.finish("n.demo.0.a")
    assert bodies(logs)[-1] == "last words"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_child_outlives_its_relay(logs: Logs, number: signal.Signals) -> None:
    relay = logs.relay.child
    assert relay is not None
    os.kill(relay.pid, number)
    child = start_spam(logs, 20)
    now = time.monotonic()
    for second in range(10):  # as the main loop calls it, until a relay that hangs is killed
        logs.check_relay(now + second)
    relay.popen.wait(WAIT_TIMEOUT_S)
    logs.relay.exited()
    assert logs.check_relay(now + 100) is not None
    assert child.wait(WAIT_TIMEOUT_S) == 0
    logs.finish("n.demo.0.a")
    assert bodies(logs)[-1] == "last words"


def test_a_process_keeps_its_output_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", LEFT, str(tmp_path), LATE]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, timeout=WAIT_TIMEOUT_S, check=True)
    assert done.stderr.strip() == "end"


def test_rubbish_and_lines_of_any_length_are_kept_in_lines(logs: Logs) -> None:
    output = logs.open("demo.0", "n.demo.0.a")
    os.write(output, b"\0\n\n\xff\x1b[31m\0\n")
    for _ in range(10):
        os.write(output, b"y" * 20_000)
    os.write(output, b"\nend\n")
    logs.finish("n.demo.0.a")
    lines = bodies(logs)
    assert lines[1:4] == ["\0", "", "\ufffd\x1b[31m\0"]
    assert [len(line) for line in lines[4:-1]] == [65536, 65536, 65536, 200_000 - 3 * 65536]
    assert lines[-1] == "end"


def test_no_file_grows_beyond_its_limit_with_a_large_write(tmp_path: Path) -> None:
    log = RotatingLog(tmp_path / "x.log", max_bytes=1000, keep=2)
    for count in (1, 30, 500, 7, 199):
        log.write(b"".join(b"line %d\n" % number for number in range(count)))
        assert max(file.stat().st_size for file in tmp_path.iterdir()) <= 1000
        assert len(list(tmp_path.iterdir())) <= 3
        assert log.tail(1) == [f"line {count - 1}"]
    log.close()


def test_the_relay_outlives_a_supervisor_that_is_killed_with_a_reply_unread() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    source, engine = os.pipe()
    inlet, sink = os.pipe()
    argv = [sys.executable, "-I", "-S", relay.__file__, str(theirs.fileno())]
    process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    socket.send_fds(ours, [b"+e"], [source, sink])
    ours.send(b"?")
    wait_until(lambda: select.select([ours], [], [], 0)[0], what="the reply")
    for end in (ours, theirs):
        end.close()  # with the reply unread, as when the process is killed
    for fd in (source, inlet, sink):
        os.close(fd)
    for _ in range(64):
        os.write(engine, b"x" * 65_536)  # more than a pipe holds: the relay reads it
    os.close(engine)
    assert (process.wait(WAIT_TIMEOUT_S), process.communicate()[1]) == (0, b"")


def test_a_node_replaces_a_relay_that_was_killed_and_no_engine_notices(node: Node) -> None:
    node.engine()
    supervisor = node.start()
    [engine] = node.ready()
    [relay] = [it for it in psutil.Process(supervisor.pid).children() if "relay.py" in " ".join(command_of(it))]
    relay.kill()
    relay.wait(WAIT_TIMEOUT_S)
    for text in ("first", "second"):
        node.result(node.submit("say", text=text))
    lines = wait_until(lambda: [line for line in node.all_logs().splitlines() if line.endswith("second")])
    assert len(lines) == 1
    assert node.ready()[0].engine_id == engine.engine_id


def test_a_log_that_cannot_be_rotated_goes_on_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "x.log.1" / "full").mkdir(parents=True)  # a folder in the way
    log = RotatingLog(tmp_path / "x.log", max_bytes=100, keep=1)
    for number in range(50):
        log.write(b"line %d\n" % number)
    assert log.tail(1) == ["line 49"]
    assert log.lost == 0
    log.close()
