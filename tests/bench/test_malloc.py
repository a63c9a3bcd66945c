"""The server of `./dev bench broker` runs on the malloc that the run names."""

from pathlib import Path

import pytest

from bench.harness import malloc as module
from bench.harness.malloc import JEMALLOC, LIBC, malloc, malloc_of
from bench.harness.servers import private_server


def test_libc_is_had_for_the_asking_and_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNPACKED", tmp_path / "nothing")
    with private_server(malloc(LIBC, fetch=True)) as server:
        assert malloc_of(server.pid) == LIBC
    assert not (tmp_path / "nothing").exists()


def test_a_jemalloc_that_can_not_be_loaded_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "allocator", lambda: ("libc's malloc", ""))
    monkeypatch.setattr(module, "UNPACKED", tmp_path)
    (tmp_path / "libjemalloc.so.2").write_text("not a library")
    with private_server(malloc(JEMALLOC, fetch=False)) as server:
        assert malloc_of(server.pid) == LIBC


def test_a_machine_that_can_not_fetch_it_goes_on_with_libc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "allocator", lambda: ("libc's malloc", ""))
    monkeypatch.setattr(module, "UNPACKED", tmp_path / "nothing")
    monkeypatch.setattr(module, "PACKAGE", "no-such-package")
    assert "tcache" in malloc(JEMALLOC, fetch=True)
    assert "no-such-package can't be had" in capsys.readouterr().out
