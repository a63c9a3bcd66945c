"""What only a folder has: names, renames, read-only files, left-overs of dead writers."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from dalston_queue.artifacts import StoreError
from dalston_queue.artifacts.folder import FolderStore
from tests.conftest import ROOT

HOUR = 3600.0


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def put(store: FolderStore, content: bytes) -> Path:
    return store.path(store.put(io.BytesIO(content)).ref, store.root)


def make_old(file: Path) -> None:
    long_ago = time.time() - 2 * HOUR
    os.utime(file, (long_ago, long_ago))


def test_a_stored_file_can_only_be_read(store: FolderStore) -> None:
    assert put(store, b"x").stat().st_mode & 0o777 == 0o444


def test_storing_again_makes_it_young(store: FolderStore) -> None:
    file = put(store, b"x")
    make_old(file)
    put(store, b"x")
    assert not store.delete(f"sha256:{file.name}", HOUR)
    make_old(file)
    assert store.delete(f"sha256:{file.name}", HOUR)


def test_a_file_that_is_stored_again_while_it_is_deleted_stays(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(store, b"x")
    make_old(file)
    rename = Path.rename

    def upload_comes_first(path: Path, target: Path) -> Path:
        put(store, b"x")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", upload_comes_first)
    assert not store.delete(f"sha256:{file.name}", HOUR)
    assert file.read_bytes() == b"x"


def test_a_writer_that_was_killed_leaves_a_file_that_is_cleaned_up(store: FolderStore) -> None:
    code = """
import os, sys
import io
import os
import tempfile
from pathlib import Path
from dalston_queue.artifacts.folder import FolderStore
writer = FolderStore(Path(sys.argv[1])).writer()
writer.write(b"half")
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", code, str(store.root)], cwd=ROOT, check=False)
    [left] = (store.root / "incoming").iterdir()
    assert store.clean_up(HOUR) == 0
    make_old(left)
    assert store.clean_up(HOUR) == 1
    assert list((store.root / "incoming").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"can't be written: Not a directory"):
        FolderStore(tmp_path / "file").put(io.BytesIO(b"x"))


def test_a_folder_of_another_user_is_named(tmp_path: Path) -> None:
    """As root a test becomes another user for a moment; as an ordinary user the folder is closed."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "store"
        store = FolderStore(root)
        store.put(io.BytesIO(b"x"))
        store.check()
        Path(name).chmod(0o755)
        if os.geteuid() == 0:
            os.seteuid(65_534)
        else:
            (root / "incoming").chmod(0o555)
        try:
            with pytest.raises(StoreError, match="can't be written"):
                store.check()
        finally:
            if os.getuid() == 0:
                os.seteuid(0)
            (root / "incoming").chmod(0o755)
        [of_digest] = [folder for folder in root.iterdir() if folder.name != "incoming"]
        of_digest.chmod(0o555)
        (root / "incoming").chmod(0o777)
        if os.geteuid() == 0:
            os.seteuid(65_534)
        try:
            with pytest.raises(StoreError, match=f"{of_digest.name} belongs to user .*, and this is "):
                store.check()
        finally:
            if os.getuid() == 0:
                os.seteuid(0)
            of_digest.chmod(0o755)
