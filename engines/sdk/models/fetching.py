"""The folder of a model, fetched if it is missing.

A folder under its name is whole: files are verified by the archive's pinned sha512, written beside it, synced, and the
folder is renamed last. One process fetches, the others wait for its lock. A fetch that was killed goes on with the next
archive: the ones that arrived whole are kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from dalston_queue.artifacts.folder import sync_folder

from .catalogue import Model, Package
from .clients import FetchError, download

ELSEWHERE = "another process is fetching it"
Report = Callable[[float, str], None]
"""Called with the fraction that has arrived, and a sentence for people."""


def folder_of(name: str, model: Model, root: Path) -> Path:
    return root / f"{name}-{model.digest}"


def is_fetched(name: str, model: Model, root: Path) -> bool:
    return folder_of(name, model, root).is_dir()


def fetch(name: str, model: Model, root: Path, report: Report) -> Path:
    """The folder with the model's files. Raises FetchError."""
    target = folder_of(name, model, root)
    if target.is_dir():
        return target
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / f".{target.name}.lock", lambda: report(0.0, ELSEWHERE)):
            if not target.is_dir():
                _fetch(model, root, target, report)
    except OSError as error:
        raise FetchError(f"{root}: {error.strerror or error}") from None
    return target


def _fetch(model: Model, root: Path, target: Path, report: Report) -> None:
    part = root / f".{target.name}.part"
    part.mkdir(exist_ok=True)
    for left in part.iterdir():
        if left.is_dir():  # of a fetch that was killed
            shutil.rmtree(left)
    before = 0
    archives: list[tuple[Package, Path]] = []
    for package in model.packages:
        archive = part / package.sha512[:32]
        if not archive.exists():
            _download(package, part, archive, root, _progress(report, before, package, model))
        before += package.bytes
        archives.append((package, archive))
        report(before / model.bytes, "unpacking" if before == model.bytes else package.spec)
    files = part / "files"
    files.mkdir()
    for package, archive in archives:
        for own, path in package.files.items():
            _unpack(package, archive, path, files / own)
    sync_folder(files)
    files.rename(target)
    sync_folder(root)
    shutil.rmtree(part)


def _progress(report: Report, before: int, package: Package, model: Model) -> Callable[[int], None]:
    def on_bytes(arrived: int) -> None:
        report((before + min(arrived, package.bytes)) / model.bytes, package.spec)

    return on_bytes


def _download(package: Package, part: Path, archive: Path, root: Path, on_bytes: Callable[[int], None]) -> None:
    with tempfile.TemporaryDirectory(dir=part) as scratch:
        file = download(package, Path(scratch), root / ".tools", on_bytes)
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha512").hexdigest()
        if digest != package.sha512:
            raise FetchError(f"{package.spec} has sha512 {digest[:16]}…, pinned is {package.sha512[:16]}…: not used")
        file.rename(archive)


def _unpack(package: Package, archive: Path, path: str, target: Path) -> None:
    with _member(package, archive, path) as source, target.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
        out.flush()
        os.fsync(out.fileno())


@contextlib.contextmanager
def _member(package: Package, archive: Path, path: str) -> Iterator[IO[bytes]]:
    """A file in an archive whose digest was checked."""
    try:
        if package.pypi:
            with zipfile.ZipFile(archive) as wheel, wheel.open(path) as file:
                yield file
        else:
            with tarfile.open(archive, "r:gz") as tar:
                yield tar.extractfile(path)  # type: ignore[misc] # None, of a folder, can't be read: see below
    except (KeyError, AttributeError):
        raise FetchError(f"{package.spec} has no file {path}") from None


@contextlib.contextmanager
def _locked(file: Path, waits: Callable[[], None]) -> Iterator[None]:
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
