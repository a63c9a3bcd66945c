"""The state file: pid and start time of running engines, for the next supervisor if this one is killed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

log = structlog.get_logger("supervisor")


class Process(msgspec.Struct, frozen=True):
    pid: int
    start: int


class EngineRecord(msgspec.Struct, frozen=True):
    """One engine process, with the descendants that were seen (they may have left its group)."""

    engine_id: str
    queues: tuple[str, ...]
    process: Process
    descendants: tuple[Process, ...] = ()


def write_whole(path: Path, data: bytes) -> None:
    """Atomic: a reader sees the old content or the new. A full disk is logged, not raised."""
    temporary = path.with_suffix(".new")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        log.error("state not saved", file=str(path), why=str(error))


class StateFile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, engines: list[EngineRecord]) -> None:
        write_whole(self.path, msgspec.json.encode(engines))

    def read(self) -> list[EngineRecord]:
        """Empty without a file, or if a power cut left it unreadable: then the environment marks find the processes."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=list[EngineRecord])
        except (OSError, msgspec.MsgspecError):
            return []
