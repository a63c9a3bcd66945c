"""Reader of a slot's log: its last lines, a span of time, or the lines after a position; always a bounded number.

Every line starts with a stamp of fixed width, and stamps grow with the file: a moment is found by bisection.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

MAX_BYTES = 256 << 10  # of one answer
SEARCHED_BYTES = 4 << 20  # for the lines of one task, among those of all tasks of its engine
MAX_LINE_LENGTH = 2000  # characters
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
    """The timestamp of a moment; of one outside of the calendar the earliest or the latest."""
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
    room: int = MAX_BYTES,
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
    """Lines of one process: from the note of its start to that of the next. Without the notes: all lines."""
    first, last = 0, len(lines)
    for index, line in enumerate(lines):
        if line.text.endswith(" starts") and line.text[STAMP_LENGTH:].startswith(" --- "):
            if line.text.endswith(f"--- {engine_id} starts"):
                first, last = index, len(lines)
            elif last == len(lines):
                last = index
    return lines[first:last]


def _backwards(file: BinaryIO, low: int, high: int, count: int, room: int) -> tuple[list[tuple[int, str]], int]:
    """(end, text) of the last whole lines between two offsets, oldest first, and their number of bytes."""
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
        lines.append((at, raw.decode("utf-8", "replace")[:MAX_LINE_LENGTH]))
    return (lines[-count:] if count > 0 else []), len(data)


def _offset(file: BinaryIO, size: int, stamp: bytes) -> int:
    """The offset of the first line whose stamp is not before this one."""
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
