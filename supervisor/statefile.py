"""What the next supervisor needs to know if this one is killed: which engines ran, as pid and start time."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Process(msgspec.Struct, frozen=True):
    pid: int
    start: int


class EngineRecord(msgspec.Struct, frozen=True):
    """One engine process, with the descendants that were seen (they may have left its group)."""

    engine_id: str
    queues: tuple[str, ...]
    process: Process
    descendants: tuple[Process, ...] = ()


class StateFile:
    """Replaced as a whole, atomically: a reader sees the old or the new."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, engines: list[EngineRecord]) -> None:
        temporary = self.path.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(engines))
        temporary.replace(self.path)

    def read(self) -> list[EngineRecord]:
        """Empty if there is none, or if a power cut left it unreadable: the environment marks find the rest."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=list[EngineRecord])
        except (OSError, msgspec.MsgspecError):
            return []
