"""The server of `./dev bench broker` runs on the malloc that the run names."""

import ctypes.util
import os
import re
import shutil
from pathlib import Path

import pytest

from bench.harness import malloc
from bench.harness.malloc import JEMALLOC, LIBC, environment_for, malloc_of
from bench.harness.servers import private_server

only_debian = pytest.mark.skipif(not shutil.which("apt-get"), reason="it is fetched with Debian's tools")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the fetched one would be, on a machine that has none of its own."""
    monkeypatch.setattr(malloc, "jemalloc", lambda: None)
    monkeypatch.setattr(malloc, "LIBRARY", tmp_path / "jemalloc" / "libjemalloc.so.2")
    (tmp_path / "jemalloc").mkdir()
    return tmp_path / "jemalloc" / "libjemalloc.so.2"


@pytest.fixture
def never_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc, "_fetch", lambda: pytest.fail("it was fetched"))


def preloaded(environment: list[str]) -> bool:
    return any(word.startswith("LD_PRELOAD=") for word in environment)


def loaded_library() -> str:
    """Some library that any process can load."""
    name = str(ctypes.util.find_library("m"))
    ctypes.CDLL(name)
    paths: list[str] = re.findall(rf"\S+/{re.escape(name)}", Path("/proc/self/maps").read_text())
    return paths[0]


@pytest.mark.usefixtures("never_fetched")
def test_a_server_gets_the_library_that_was_fetched_before(library: Path) -> None:
    shutil.copyfile(loaded_library(), library)
    with private_server(environment_for(JEMALLOC, fetch=True)) as server:
        assert malloc_of(server.pid) == JEMALLOC


@pytest.mark.usefixtures("never_fetched")
def test_libc_is_had_for_the_asking_though_there_is_another(library: Path) -> None:
    shutil.copyfile(loaded_library(), library)
    with private_server(environment_for(LIBC, fetch=True)) as server:
        assert malloc_of(server.pid) == LIBC


@pytest.mark.usefixtures("never_fetched", "library")
def test_nothing_is_fetched_unless_asked_for() -> None:
    assert not preloaded(environment_for(JEMALLOC, fetch=False))


def test_a_library_that_can_not_be_loaded_is_not_named(library: Path) -> None:
    library.write_text("not a library")
    with private_server(environment_for(JEMALLOC, fetch=False)) as server:
        assert malloc_of(server.pid) == LIBC


@only_debian
def test_a_machine_that_can_not_fetch_it_says_so_and_goes_on_with_libc(
    library: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(malloc, "PACKAGE", "no-such-package")
    assert not preloaded(environment_for(JEMALLOC, fetch=True))
    assert "no-such-package can't be had: E: Unable to locate package" in capsys.readouterr().out
    assert not library.exists()


@only_debian
def test_what_was_fetched_is_loaded_even_if_nothing_of_the_peers_environment_is_there(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a package of our own making in the place of Debian's."""
    library.parent.rmdir()
    content = tmp_path / "package" / "usr" / "lib"
    content.mkdir(parents=True)
    shutil.copyfile(loaded_library(), content / library.name)
    control = tmp_path / "package" / "DEBIAN" / "control"
    control.parent.mkdir()
    control.write_text("Package: ours\nVersion: 1\nArchitecture: all\nMaintainer: us\nDescription: for a test\n")
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text(f'#!/bin/sh\nexec dpkg-deb --build "{tmp_path}/package" ours.deb\n')
    apt.chmod(0o700)
    monkeypatch.setenv("PATH", str(apt.parent), prepend=os.pathsep)
    monkeypatch.setattr(malloc, "ROOT", tmp_path)
    with private_server(environment_for(JEMALLOC, fetch=True)) as server:
        assert malloc_of(server.pid) == JEMALLOC
    assert list(library.parent.iterdir()) == [library], "what was unpacked on the way is still there"
