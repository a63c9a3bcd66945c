"""FolderStore: artifacts in a folder, which several machines may share over NFS or the like.

<root>/<first two digits>/<64 digits>     a whole file, read-only
<root>/incoming/<random>                  a file that is being written, or one on its way out
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import ArtifactMissing, StoreError
from .reference import digest_of
from .store import Part, Readable, Store, Writer


class FolderStore(Store):
    def __init__(self, root: Path) -> None:
        self.root = root
        self._incoming = root / "incoming"

    def writer(self) -> Writer:
        with _reasons("written"):
            self._incoming.mkdir(parents=True, exist_ok=True)
            path = self._incoming / secrets.token_hex(16)
            return _FolderWriter(path.open("xb"), path, self)

    def check(self) -> None:
        """Also of the folders that another user has made: a file goes into the one of its digest."""
        with self.writer():
            pass
        there = (folder for folder in (self.root / f"{part:02x}" for part in range(256)) if folder.exists())
        for folder in (self._incoming, *there):
            if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
                owner = folder.stat().st_uid
                raise StoreError(
                    f"the artifact store can't be written: {folder} belongs to user {owner}, and this is {os.geteuid()}"
                )

    def free_share(self) -> float | None:
        with _reasons("read"):
            self._incoming.mkdir(parents=True, exist_ok=True)
            found = shutil.disk_usage(self._incoming)
        return found.free / found.total

    def keep(self, path: Path, digest: str) -> None:
        """Always by a rename, also over the same content: a `delete` at the same time must see a fresh file."""
        final = self._file(digest)
        with _reasons("written"):
            final.parent.mkdir(exist_ok=True)
            path.chmod(0o444)
            path.replace(final)
            sync_folder(final.parent)

    @contextmanager
    def open(self, ref: str, offset: int = 0, length: int | None = None) -> Iterator[Readable]:
        with self._opened(ref) as file:
            file.seek(offset)
            yield file if length is None else Part(file, length)

    def path(self, ref: str, folder: Path) -> Path:  # noqa: ARG002 - it is local already
        self.size(ref)
        return self._file(digest_of(ref))

    def size(self, ref: str) -> int:
        with _reasons("read"), _missing(ref):
            return self._file(digest_of(ref)).stat().st_size

    def delete(self, ref: str, untouched_s: float = 0.0) -> bool:
        file = self._file(digest_of(ref))
        with _reasons("changed"):
            try:
                if _age(file) < untouched_s:
                    return False
                # Aside first: the same content may be stored anew at this very moment, and must stay.
                aside = self._incoming / secrets.token_hex(16)
                self._incoming.mkdir(exist_ok=True)
                file.rename(aside)
            except FileNotFoundError:
                return True
            fresh = _age(aside) < untouched_s
            if fresh:
                with suppress(FileExistsError):
                    os.link(aside, file)
            aside.unlink()
            return not fresh

    def untouched(self, part: int, seconds: float) -> Iterator[str]:
        with _reasons("read"), suppress(FileNotFoundError), os.scandir(self.root / f"{part:02x}") as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if len(entry.name) == 64 and time.time() - entry.stat().st_mtime >= seconds:
                        yield f"sha256:{entry.name}"

    def clean_up(self, seconds: float) -> int:
        count = 0
        with _reasons("changed"), suppress(FileNotFoundError), os.scandir(self._incoming) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if time.time() - entry.stat().st_mtime >= seconds:
                        Path(entry.path).unlink()
                        count += 1
        return count

    def _file(self, digest: str) -> Path:
        return self.root / digest[:2] / digest

    @contextmanager
    def _opened(self, ref: str) -> Iterator[BinaryIO]:
        with _reasons("read"), _missing(ref):
            file = self._file(digest_of(ref)).open("rb")
        with file:
            yield file


class _FolderWriter(Writer):
    def __init__(self, file: BinaryIO, path: Path, store: FolderStore) -> None:
        super().__init__(file, path)
        self._store = store

    def _keep(self, path: Path, digest: str) -> None:
        self._store.keep(path, digest)


def _age(file: Path) -> float:
    return time.time() - file.stat().st_mtime


def sync_folder(folder: Path) -> None:
    """Makes a rename in the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _missing(ref: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise ArtifactMissing(f"the artifact {ref} is not in the store") from None


@contextmanager
def _reasons(done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        full = " (the disk is full)" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise StoreError(f"the artifact store can't be {done}: {error.strerror}{full}") from error
