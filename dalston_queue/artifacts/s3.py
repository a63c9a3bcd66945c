"""S3Store: artifacts in a bucket of S3, or of a server that speaks its protocol (MinIO, Ceph). Needs the extra `s3`.

Credentials, region and endpoint come from the usual variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_ENDPOINT_URL. An object appears when its upload is whole. Storing the same content again writes the object again,
which makes it young.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from .errors import ArtifactMissing, StoreError
from .reference import digest_of
from .store import CHUNK, Part, Readable, Store, Writer


class S3Store(Store):
    def __init__(self, bucket: str, prefix: str) -> None:
        try:
            from s3fs import S3FileSystem
        except ImportError:
            raise StoreError("an artifact store in S3 needs the extra s3: pip install 'dalston[s3]'") from None
        # Without the cache of listings: other machines write, too.
        self._s3: Any = S3FileSystem(use_listings_cache=False)
        self._root = f"{bucket}/{prefix}" if prefix else bucket

    def check(self) -> None:
        """Nothing: a request could take minutes of retries, and a bucket has no owner to mistake."""

    def writer(self) -> Writer:
        file = tempfile.NamedTemporaryFile(prefix="dalston-artifact-", delete=False)  # noqa: SIM115 - closed by the writer
        return _S3Writer(cast("BinaryIO", file), Path(file.name), self)

    def keep(self, path: Path, digest: str) -> None:
        with _reasons("written"):
            self._s3.put_file(str(path), self._key(digest))

    @contextmanager
    def open(self, ref: str, offset: int = 0, length: int | None = None) -> Iterator[Readable]:
        with _reasons("read", ref):
            file = self._s3.open(self._key(digest_of(ref)), "rb", block_size=CHUNK, cache_type="readahead")
            file.seek(min(offset, file.size))
        with file:
            yield _Careful(file if length is None else Part(file, length), ref)

    def path(self, ref: str, folder: Path) -> Path:
        """Fetched, and compared with its digest."""
        digest = digest_of(ref)
        final = folder / digest
        if final.exists():
            return final
        folder.mkdir(parents=True, exist_ok=True)
        partial, found = folder / f"{digest}.part", hashlib.sha256()
        with self.open(ref) as source, partial.open("wb") as file:
            while data := source.read(CHUNK):
                found.update(data)
                file.write(data)
        if found.hexdigest() != digest:
            partial.unlink()
            raise StoreError(f"the artifact {ref} is damaged: its content has another digest")
        return partial.replace(final)

    def size(self, ref: str) -> int:
        with _reasons("read", ref):
            return int(self._s3.info(self._key(digest_of(ref)))["size"])

    def delete(self, ref: str, untouched_s: float = 0.0) -> bool:
        key = self._key(digest_of(ref))
        with _reasons("changed"):
            try:
                if untouched_s and _age(self._s3.info(key)) < untouched_s:
                    return False
                self._s3.rm_file(key)
            except FileNotFoundError:
                pass
            return True

    def untouched(self, part: int, seconds: float) -> Iterator[str]:
        with _reasons("read"):
            try:
                entries = self._s3.ls(f"{self._root}/{part:02x}", detail=True)
            except FileNotFoundError:
                return
            for entry in entries:
                name = entry["name"].rpartition("/")[2]
                if len(name) == 64 and _age(entry) >= seconds:
                    yield f"sha256:{name}"

    def clean_up(self, seconds: float) -> int:  # noqa: ARG002 - what S3 has is whole
        return 0

    def _key(self, digest: str) -> str:
        return f"{self._root}/{digest[:2]}/{digest}"


class _S3Writer(Writer):
    def __init__(self, file: BinaryIO, path: Path, store: S3Store) -> None:
        super().__init__(file, path)
        self._store = store

    def _keep(self, path: Path, digest: str) -> None:
        self._store.keep(path, digest)


class _Careful:
    """A file whose read raises our errors."""

    def __init__(self, file: Readable, ref: str) -> None:
        self._file, self._ref = file, ref

    def read(self, size: int = -1, /) -> bytes:
        with _reasons("read", self._ref):
            return self._file.read(size)


def _age(entry: dict[str, Any]) -> float:
    changed: datetime = entry["LastModified"]
    return time.time() - changed.timestamp()


@contextmanager
def _reasons(done: str, ref: str = "") -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except FileNotFoundError as error:
        if ref:
            raise ArtifactMissing(f"the artifact {ref} is not in the store") from None
        raise StoreError(f"the artifact store can't be {done}: {error}") from error
    except (OSError, BotoCoreError, ClientError) as error:
        raise StoreError(f"the artifact store can't be {done}: {error}") from error
