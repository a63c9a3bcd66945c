"""Reads server-sent events from bytes, however these are cut into pieces.

Lines end at a line feed and nowhere else: JSON may contain U+2028 and other characters that Python counts as line ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    event: str
    data: Any
    id: int | None = None


def messages(pieces: Iterable[bytes]) -> Iterator[Message | None]:
    """Each message; None for a comment, which only says that the other side is there."""
    fields: dict[str, str] = {}
    for line in _lines(pieces):
        if line.startswith(":"):
            yield None
        elif line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
        else:
            if "data" in fields:
                event_id = fields.get("id", "")
                yield Message(
                    fields.get("event", "message"),
                    json.loads(fields["data"]),
                    int(event_id) if event_id.isdecimal() else None,
                )
            fields = {}


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
