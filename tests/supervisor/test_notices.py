"""The notify socket: what engines say, and that the kernel tells us who says it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engines.sdk.notify import notify
from supervisor.notices import NoticeSocket
from tests.support import wait_until


def test_a_notice_carries_the_pid_of_its_sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = NoticeSocket(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(socket.path))
    assert notify("READY=1", "STATUS=a = b")
    [notice] = socket.receive()
    assert (notice.pid, notice.fields) == (os.getpid(), {"READY": "1", "STATUS": "a = b"})
    child = subprocess.Popen([sys.executable, "-c", "from engines.sdk.notify import notify; notify('READY=1')"])
    notices = wait_until(socket.receive, what="the child's notice")
    child.wait()
    assert [notice.pid for notice in notices] == [child.pid]
    socket.close()


def test_nobody_listening_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    assert not notify("READY=1")


def test_a_state_dir_too_deep_for_a_socket_gets_it_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    socket = NoticeSocket(tmp_path / ("x" * 100) / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(socket.path))
    assert notify("READY=1")
    assert len(socket.receive()) == 1
    socket.close()
    assert not socket.path.parent.exists()
