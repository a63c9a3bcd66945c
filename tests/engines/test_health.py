"""The health of an engine: what the SDK answers to a probe, and who gets an answer."""

import os
import secrets
import socket
import time
from pathlib import Path

import pytest

from dalston_queue.broker.nodes.health import address, ask_health
from engines.sdk.process.health import MEMORY_SHARE, Health, memory_limit_mib, memory_mib, serve_health
from engines.sdk.task import Task


def health(*, connected: bool = True, still_s: float = 0.0, running: tuple[Task, ...] = ()) -> Health:
    return Health(connected=lambda: connected, runner_at=lambda: time.monotonic() - still_s, running=lambda: running)


def served(each: Health) -> str:
    engine_id = f"node.demo.0.{secrets.token_hex(6)}"
    serve_health(engine_id, each)
    return engine_id


def test_an_answer_has_memory_cpu_threads_and_connection() -> None:
    engine_id = served(health(connected=False))
    report = ask_health(engine_id, os.getpgid(0), 5)
    assert report.problem == ""
    assert report.memory_mib == pytest.approx(memory_mib(), rel=0.5)
    assert (report.threads >= 2, report.cpu_percent >= 0, report.connected) == (True, True, False)
    assert report.progress_age_s is None


def test_it_answers_again_and_again() -> None:
    engine_id = served(health())
    assert [ask_health(engine_id, os.getpgid(0), 5).problem for _ in range(20)] == [""] * 20


def test_a_main_thread_that_stands_still_is_a_problem() -> None:
    assert health(still_s=40).read().problem == "its main thread stands still for 40 s"


def test_the_memory_of_its_cgroup_is_a_limit(tmp_path: Path) -> None:
    (tmp_path / "cgroup").write_text("0::/engine\n")
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "memory.max").write_text(str(64 << 20))
    assert memory_limit_mib(tmp_path, tmp_path / "cgroup") == 64
    each = health()
    each._limit_mib = memory_mib() * MEMORY_SHARE * 0.9
    assert "MiB" in each.read().problem


@pytest.mark.parametrize("text", ["max\n", ""])
def test_without_a_limit_memory_is_no_problem(tmp_path: Path, text: str) -> None:
    (tmp_path / "cgroup").write_text("0::/\n")
    (tmp_path / "memory.max").write_text(text)
    assert memory_limit_mib(tmp_path, tmp_path / "cgroup") is None
    assert memory_limit_mib(tmp_path, tmp_path / "nothing") is None


def test_an_engine_that_is_not_there_gives_no_answer() -> None:
    with pytest.raises(ConnectionRefusedError):
        ask_health("absent", os.getpgid(0), 1)


def test_an_answer_of_another_program_does_not_count() -> None:
    engine_id = served(health())
    with pytest.raises(ValueError, match="another program"):
        ask_health(engine_id, os.getpgid(0) + 1, 5)


def test_a_program_that_says_nothing_or_rubbish_is_no_answer() -> None:
    for reply, error in ((None, OSError), (b"", ValueError), (b"{]", ValueError)):
        engine_id = secrets.token_hex(6)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address(engine_id))
            listener.listen(1)
            with pytest.raises(error):  # noqa: PT012 - the answer comes from this thread
                if reply is not None:
                    _answer_later(listener, reply)
                ask_health(engine_id, os.getpgid(0), 0.3)


def _answer_later(listener: socket.socket, reply: bytes) -> None:
    import threading

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(reply)

    threading.Thread(target=answer, daemon=True).start()
