"""What every artifact store can do, and `open_store`, which makes one of an address."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol, Self
from urllib.parse import unquote, urlsplit

from .errors import ArtifactMissing, StoreError
from .reference import Artifact

CHUNK = 1024 * 1024


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class Part:
    """The next `left` bytes of a file."""

    def __init__(self, file: Readable, left: int) -> None:
        self._file, self._left = file, left

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data


class Writer(ABC):
    """A file on its way into the store. Left without `commit`, nothing of it stays."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self._digest = sha256()
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        self._digest.update(data)
        self.size += self._file.write(data)

    @property
    def ref(self) -> str:
        """Of what was written so far."""
        return f"sha256:{self._digest.hexdigest()}"

    def commit(self) -> Artifact:
        """Stores the file under the digest of what was written."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._keep(self._path, self._digest.hexdigest())
        self.discard()
        return Artifact(self.ref, self.size)

    def discard(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    @abstractmethod
    def _keep(self, path: Path, digest: str) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


class Store(ABC):
    """Every method raises BadReference for a text that is no reference, and StoreError when the store fails."""

    @abstractmethod
    def writer(self) -> Writer: ...

    @abstractmethod
    def open(self, ref: str, offset: int = 0, length: int | None = None) -> AbstractContextManager[Readable]:
        """The content, or `length` bytes of it from `offset`. Raises ArtifactMissing."""

    @abstractmethod
    def path(self, ref: str, folder: Path) -> Path:
        """A local file with the content, to read only: in the store, or fetched into `folder`. Raises
        ArtifactMissing."""

    @abstractmethod
    def size(self, ref: str) -> int:
        """In bytes. Raises ArtifactMissing."""

    @abstractmethod
    def delete(self, ref: str, untouched_s: float = 0.0) -> bool:
        """Deletes a file that was last stored so long ago. False: it stays. What is gone already
        counts as deleted."""

    @abstractmethod
    def untouched(self, part: int, seconds: float) -> Iterator[str]:
        """References of files that were last stored so long ago, of one 256th of the store."""

    @abstractmethod
    def clean_up(self, seconds: float) -> int:
        """Deletes unfinished files of writers that died so long ago; returns how many."""

    @abstractmethod
    def check(self) -> None:
        """Raises StoreError if this process can't store files here, as far as that shows without storing one."""

    def free_share(self) -> float | None:
        """The share of its disk that is free; None if it has no disk of its own."""
        return None

    def exists(self, ref: str) -> bool:
        try:
            self.size(ref)
        except ArtifactMissing:
            return False
        return True

    def put(self, source: Readable) -> Artifact:
        with self.writer() as writer:
            while data := source.read(CHUNK):
                writer.write(data)
            return writer.commit()

    def put_path(self, path: Path) -> Artifact:
        try:
            with path.open("rb") as source:
                return self.put(source)
        except FileNotFoundError:
            raise StoreError(f"{path} can't be stored: there is no such file") from None

    def read(self, ref: str, limit: int | None = None) -> bytes:
        """The content, or its first `limit` bytes."""
        with self.open(ref, 0, limit) as source:
            parts = []
            while data := source.read(CHUNK):
                parts.append(data)
        return b"".join(parts)


def open_store(url: str) -> Store:
    """A folder (`file:///srv/artifacts`) or a bucket (`s3://bucket/prefix`). Nothing is read or made yet. Raises
    StoreError for any other address."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path[:1] == "/" != parts.path:
        from .folder import FolderStore

        return FolderStore(Path(unquote(parts.path)))
    if parts.scheme == "s3" and parts.netloc and not parts.query:
        from .s3 import S3Store

        return S3Store(parts.netloc, parts.path.strip("/"))
    raise StoreError("the artifact store is neither file:///folder nor s3://bucket/prefix")
