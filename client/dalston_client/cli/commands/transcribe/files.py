"""Recordings and their outputs: which file becomes which, and writing an output whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from dalston_client.cli.exits import UsageError

STDIN = "-"
CHUNK = 1 << 20


class Phase(StrEnum):
    TODO = "waiting"
    READING = "reading"
    SENDING = "sending"
    SUBMITTED = "submitted"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


OVER = frozenset({Phase.DONE, Phase.SKIPPED, Phase.FAILED})


@dataclass(slots=True)
class Recording:
    """One recording on its way. Changed by one thread at a time: the one that has taken it."""

    name: str  # as it was given
    output: Path | None  # None: standard output
    phase: Phase = Phase.TODO
    sent: float = 0.0  # the share that was sent
    id: str = ""  # of its transcription
    progress: float = 0.0
    status: str = ""
    waits: str = ""  # why its next stage is not running yet
    problem: str = ""  # why it failed
    error: Exception | None = None  # what made it fail, unless its job did

    @property
    def filename(self) -> str:
        return "standard input" if self.name == STDIN else Path(self.name).name

    def failed(self, problem: str, error: Exception | None = None) -> None:
        self.problem, self.error, self.phase = problem, error, Phase.FAILED


def planned(names: Iterable[str], folder: Path | None, ending: str, *, again: bool) -> list[Recording]:
    """Raises UsageError before anything is read, if two recordings had one output or there is no folder for several."""
    given = list(dict.fromkeys(names))
    if folder is None:
        if len(given) > 1:
            raise UsageError("Name a folder for the transcripts of several recordings: -o DIR.")
        return [Recording(name, None) for name in given]
    sources: dict[Path, str] = {}
    for name in given:
        stem = "stdin" if name == STDIN else Path(name).stem
        output = folder / f"{stem}.{ending}"
        if output in sources:
            raise UsageError(f"{sources[output]} and {name} would both become {output}: use two runs and two folders.")
        sources[output] = name
    return [_planned(name, output, again=again) for output, name in sources.items()]


def _planned(name: str, output: Path, *, again: bool) -> Recording:
    """Skipped if its output is there and not older than it, as by make."""
    found = Recording(name, output)
    with suppress(OSError):
        if not again and name != STDIN and output.stat().st_mtime_ns >= Path(name).stat().st_mtime_ns:
            found.phase = Phase.SKIPPED
    return found


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"The folder {folder} cannot be made: {error.strerror}.") from None


def opened(name: str) -> IO[bytes]:
    """A file that can be read twice: first for its digest, then to send it. Raises OSError."""
    if name != STDIN:
        return Path(name).open("rb")
    copy: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # its reader closes it
    shutil.copyfileobj(sys.stdin.buffer, copy)
    copy.flush()  # its size is asked for
    return copy


class Watched:
    """A file that reports what is read of it, and ends by the exception of `report`."""

    def __init__(self, file: IO[bytes], report: Callable[[float], None]) -> None:
        self._file, self._report = file, report
        self.size = os.fstat(file.fileno()).st_size

    def read(self, size: int = -1) -> bytes:
        chunk = self._file.read(size)
        self._report(self._file.tell() / max(self.size, 1))
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def digest(self) -> str:
        digest = hashlib.sha256()
        self._file.seek(0)
        while chunk := self.read(CHUNK):
            digest.update(chunk)
        return digest.hexdigest()

    def stamp(self) -> tuple[int, int]:
        """Differs after a change."""
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns


def write_whole(output: Path, text: str) -> None:
    """Under a temporary name first: a reader of the output sees all of it, also after Ctrl-C and kill -9."""
    part = output.parent / f".dalston-{uuid4().hex}.part"
    try:
        with part.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(output)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
