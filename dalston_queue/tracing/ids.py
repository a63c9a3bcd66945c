"""Ids of spans, and traceparent. A span's id is a digest of what it is about, so that every process knows those of the
others: nothing has to travel through Postgres and Redis, and old rows have theirs, too."""

from __future__ import annotations

import re
from hashlib import blake2b
from uuid import UUID

TRACE_ID = re.compile(r"(?!0{32})[0-9a-f]{32}")
TRACEPARENT = re.compile(r"00-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-[0-9a-f]{2}")

Id = UUID | str


def submit(job: Id) -> int:
    return _digest("submit", job)


def wait(task: Id, attempt: int, engine: str) -> int:
    """By engine: of one attempt there is a wait for each engine that had the task, if the ones before died."""
    return _digest("wait", task, attempt, engine)


def run(task: Id, attempt: int, engine: str) -> int:
    return _digest("run", task, attempt, engine)


def settle(task: Id, attempt: int, engine: str) -> int:
    return _digest("settle", task, attempt, engine)


def apply(task: Id, attempt: int, engine: str, transition: str) -> int:
    return _digest("apply", task, attempt, engine, transition)


def webhook(delivery: Id, attempt: int) -> int:
    return _digest("webhook", delivery, attempt)


def traceparent(trace_id: str, span: int) -> str:
    """The header of W3C Trace Context; "" if the trace id is not one of W3C."""
    return f"00-{trace_id}-{span:016x}-01" if TRACE_ID.fullmatch(trace_id) else ""


def parse(header: str) -> tuple[str, int] | None:
    """Trace id and span id of a traceparent; None if it is none."""
    found = TRACEPARENT.fullmatch(header)
    return (found[1], int(found[2], 16)) if found else None


def _digest(*about: object) -> int:
    text = "\0".join(map(str, about))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) or 1
