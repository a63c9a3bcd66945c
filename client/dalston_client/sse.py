"""Server-sent events from chunks of bytes, wherever these are cut.

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


def messages(chunks: Iterable[bytes]) -> Iterator[Message | None]:
    """Each message; None for a comment, which the server sends to keep the connection alive."""
    fields: dict[str, str] = {}
    for line in _lines(chunks):
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


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")
