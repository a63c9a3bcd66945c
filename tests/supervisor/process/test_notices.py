"""The notify socket: notices of engines, each with the pid of its sender from the kernel."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engines.sdk.notify import notify
from supervisor.process.notices import NoticeSocket
from tests.support import wait_until


def test_a_notice_carries_the_pid_of_its_sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = NoticeSocket(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(listener.path))
    assert notify("READY=1", "STATUS=a = b")
    [notice] = listener.receive()
    assert (notice.pid, notice.fields) == (os.getpid(), {"READY": "1", "STATUS": "a = b"})
    child = subprocess.Popen([sys.executable, "-c", "from engines.sdk.notify import notify; notify('READY=1')"])
    notices = wait_until(listener.receive, what="the child's notice")
    child.wait()
    assert [notice.pid for notice in notices] == [child.pid]
    listener.close()


def test_a_missing_socket_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    assert not notify("READY=1")


def test_a_state_dir_too_deep_for_a_socket_gets_it_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = NoticeSocket(tmp_path / ("x" * 100) / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(listener.path))
    assert notify("READY=1")
    assert len(listener.receive()) == 1
    listener.close()
    assert not listener.path.parent.exists()


def test_no_notice_is_lost_while_the_supervisor_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket's queue is short: a READY has to wait for room while it is full."""
    listener = NoticeSocket(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(listener.path))
    while notify("STATUS=x", timeout_s=0.0):
        pass  # until the queue is full
    sent: list[bool] = []
    engine = threading.Thread(target=lambda: sent.append(notify("READY=1")))
    engine.start()
    fields = [notice.fields for notice in wait_until(listener.receive)]
    engine.join()
    fields += [notice.fields for notice in listener.receive()]
    assert sent == [True]
    assert {"READY": "1"} in fields
    listener.close()
