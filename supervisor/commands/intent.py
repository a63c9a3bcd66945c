"""The operators' intent for this node, kept over restarts: drained, cordoned, scaled, and the last command handled."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from ..process.statefile import write_whole
from .pending import PendingCommand

FORGOTTEN_AFTER_S = 60.0


class Intent(msgspec.Struct):
    after: str = ""  # the last command's entry id in its stream
    drained: str = ""  # why, by whom
    cordoned: str = ""
    replicas: dict[str, int] = {}  # by engine id; wins over node.yaml
    unfinished: list[PendingCommand] = []  # commands that are taken and not done


class IntentFile:
    """Saved before a command is carried out: after a crash it is not carried out twice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.intent = msgspec.json.decode(path.read_bytes(), type=Intent)
        except (OSError, msgspec.MsgspecError):
            # A node without a past does not repeat the commands that an earlier one of its name received.
            self.intent = Intent(after=f"{int((time.time() - FORGOTTEN_AFTER_S) * 1000)}-0")

    def save(self) -> None:
        write_whole(self.path, msgspec.json.encode(self.intent))
