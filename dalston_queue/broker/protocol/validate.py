"""Validation of what comes out of Redis: raw replies in, typed values out.

Any program may write to our keys. This module leaves out what is not valid, so that callers trust what they get. Two
modules beside it do the same for their own format: record.py for the records of tasks, messages.py for entries and
events (which are dead-lettered, not left out). A key of another type raises WrongKeyType (connection/faults.py).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from dalston_queue.broker.protocol.keys import NAME
from dalston_queue.broker.protocol.record import Record, decode_record
from dalston_queue.broker.protocol.types import Cause

log = logging.getLogger(__name__)
T = TypeVar("T")
Fields = dict[bytes, bytes]
Pairs = Iterable[tuple[bytes, bytes]]

MAX_DEPTH = 64
"""How deep JSON may nest: less than every parser that reads it allows."""

_LANE = re.compile(rb"@(%b(\+%b)*)?" % (NAME.pattern.encode(), NAME.pattern.encode()))
_CAUSES = {cause.encode(): cause for cause in Cause}


def text(raw: bytes) -> str:
    return raw.decode(errors="replace")


MAX_NUMBER = 10**15
"""More than any of our counters and times: with larger ones arithmetic and JSON overflow somewhere."""


def number(raw: bytes) -> int | None:
    """None for what is not digits only, or too large to be one of ours."""
    return int(raw) if raw.isdigit() and len(raw) <= 16 and int(raw) <= MAX_NUMBER else None


def whole(raw: bytes | str) -> int:
    """The number. Raises ValueError."""
    found = number(raw if isinstance(raw, bytes) else raw.encode())
    if found is None:
        raise ValueError(f"{raw[:40]!r} is no number of ours")
    return found


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def moment_if(ms: int | None) -> datetime | None:
    """None for 0, which stands for "not yet" and "never", and for a number that is no time."""
    try:
        return moment(ms) if ms and ms > 0 else None
    except (OverflowError, OSError, ValueError):
        return None


def document(raw: bytes, kind: type[T]) -> T | None:
    """JSON of this type."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        return None


def readable(key: str, read: Callable[[Fields], T], fields: Fields) -> T | None:
    """A hash, parsed by `read`. A hash that can't be read is logged: the next heartbeat repairs it."""
    try:
        return read(fields)
    except (KeyError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        log.warning("%s can't be read, and is skipped: %s", key, error)
        return None


def names(members: Iterable[bytes]) -> list[str]:
    """The members of a set, in order."""
    return sorted(name.decode(errors="backslashreplace") for name in members)


def matching(members: Iterable[bytes], pattern: re.Pattern[bytes]) -> list[str]:
    """Those members of a set that are ids of this form, in order."""
    return sorted(name.decode() for name in members if pattern.fullmatch(name))


def is_queue_name(name: str) -> bool:
    return NAME.fullmatch(name) is not None


def capability_sets(fields: Iterable[bytes]) -> tuple[str, ...]:
    """The lanes among the fields of `lanes:S`, in order."""
    return tuple(sorted(name[1:].decode() for name in fields if _LANE.fullmatch(name)))


def records(found: Iterable[tuple[bytes, bytes | None]]) -> dict[str, Record]:
    """Fields of `tasks:S` by task. Task ids are ASCII."""
    decoded = {task.decode(): decode_record(raw) for task, raw in found if raw and task.isascii()}
    return {task: record for task, record in decoded.items() if record}


def by_engine(found: Pairs) -> dict[str, bytes]:
    """A hash whose fields are engine ids."""
    return {name.decode(): value for name, value in found if name.isascii()}


def counters(found: Pairs) -> dict[str, int]:
    return {text(name): value for name, raw in found if (value := number(raw)) is not None}


def verdict(raw: bytes) -> tuple[bytes, Cause] | None:
    """The beat counter that an engine was judged at, and what it died of."""
    counter, _, cause = raw.partition(b":")
    return (counter, _CAUSES[cause]) if cause in _CAUSES else None


def timed(raw: bytes | None) -> tuple[int, bytes] | None:
    """Milliseconds and a text, as the scripts of commands write them."""
    at, found, rest = (raw or b"").partition(b" ")
    ms = number(at)
    return (ms, rest) if found and ms is not None else None


def too_deep(value: object, limit: int = MAX_DEPTH) -> bool:
    """True if lists and mappings are nested in more than `limit` levels.

    Walks level by level, each container of a level once, so neither depth nor a value that contains itself hurts.
    """
    level = _containers([value])
    for _ in range(limit):
        level = _containers(inner for outer in level for inner in _inside(outer))
    return bool(level)


def json_too_deep(encoded: bytes, limit: int = MAX_DEPTH) -> bool:
    """The same of JSON. Most have too few brackets to be decoded for this."""
    if encoded.count(b"[") + encoded.count(b"{") <= limit:
        return False
    try:
        return too_deep(msgspec.json.decode(encoded), limit)
    except (RecursionError, msgspec.DecodeError):
        return True


def _containers(values: Iterable[object]) -> list[object]:
    return list({id(value): value for value in values if isinstance(value, Mapping | list | tuple)}.values())


def _inside(container: object) -> Iterable[object]:
    if isinstance(container, Mapping):
        return container.values()
    return container if isinstance(container, list | tuple) else ()
