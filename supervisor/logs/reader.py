"""Reads a slot's log: its end, a span of time, or what came after a position. Never more than a bounded part of it.

Every line starts with a stamp of fixed width, and stamps grow with the file: a moment is found by bisection.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

MOST_BYTES = 256 << 10  # of one answer
LONGEST_LINE = 2000  # characters of a line that are shown
BLOCK = 64 << 10
STAMP_LENGTH = 24


class Line(NamedTuple):
    position: int  # of its end; see RotatingLog.position
    text: str


class Span(NamedTuple):
    """Stamps as they are in the file; empty: no bound."""

    since: bytes = b""
    until: bytes = b""


def stamp_of(ms: int) -> bytes:
    """The stamp of a moment. What no calendar has is as early or as late as it gets."""
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return b"0" if ms < 0 else b"9"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3].encode() + b"Z"


def last_lines(
    files: Sequence[Path],
    end: int,
    count: int,
    *,
    span: Span = Span(),  # noqa: B008 (it can't be changed)
    after: int = 0,
    room: int = MOST_BYTES,
) -> list[Line]:
    """The last lines of a log and its rotated files (the newest first; `end` is its position): at most `count` of
    them, at most `room` bytes, only those of a span of time or after a position."""
    found: list[Line] = []
    for path in files:
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                low = max(_offset(file, size, span.since) if span.since else 0, after - (end - size))
                high = _offset(file, size, span.until) if span.until else size
                lines, taken = _backwards(file, low, high, count - len(found), room)
        except OSError:
            break
        found = [Line(end - size + at, text) for at, text in lines] + found
        room -= taken
        if len(found) >= count or room <= 0 or low > 0:
            break
        end -= size
    return found


def lines_of(engine_id: str, lines: list[Line]) -> list[Line]:
    """Those of one process: from the note of its start to that of the next one's. Without either note, all of them."""
    first, last = 0, len(lines)
    for index, line in enumerate(lines):
        if line.text.endswith(" starts") and line.text[STAMP_LENGTH:].startswith(" --- "):
            if line.text.endswith(f"--- {engine_id} starts"):
                first, last = index, len(lines)
            elif last == len(lines):
                last = index
    return lines[first:last]


def _backwards(file: BinaryIO, low: int, high: int, count: int, room: int) -> tuple[list[tuple[int, str]], int]:
    """(end, text) of the last whole lines between two offsets, in the file's order, and the bytes they have."""
    start = max(low, high - room)
    file.seek(start)
    data = file.read(max(0, high - start))
    if start > low:  # in the middle of a line
        cut = data.find(b"\n") + 1
        start, data = start + cut, data[cut:] if cut else b""
    lines: list[tuple[int, str]] = []
    at = start
    for raw in data.split(b"\n")[:-1]:
        at += len(raw) + 1
        lines.append((at, raw.decode("utf-8", "replace")[:LONGEST_LINE]))
    return (lines[-count:] if count > 0 else []), len(data)


def _offset(file: BinaryIO, size: int, stamp: bytes) -> int:
    """Where the first line begins whose stamp is not before this one."""
    low, high = 0, size  # the line begins at low or later, and at high or before
    while high - low > BLOCK:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline()
        begin = file.tell()
        if begin >= high:
            break
        if file.read(STAMP_LENGTH) < stamp:
            low = begin
        else:
            high = begin
    file.seek(low)
    while low < high:
        line = file.readline()
        if not line or line[:STAMP_LENGTH] >= stamp:
            return low
        low += len(line)
    return low
