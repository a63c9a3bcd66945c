"""The record of a live task: one field of the hash `tasks:S`, a line of tab-separated fields, written by the scripts.

The field order is shared with `include/record.lua`. A line and not a packed table, because the hot path then only
compares its start and copies the rest.
"""

from __future__ import annotations

import msgspec

from dalston_queue.broker.protocol.types import RecordState

(STATE, ENTRY, STREAM, TIMEOUT, JOB, ATTEMPT, SEQ, DELIVERIES, LOSSES) = range(9)
(OWNER, CLAIMED, RENEWED, DEADLINE, CANCEL, PROGRESS) = range(9, 15)
"""Positions of the fields in a line, for readers of a few fields. The second row exists while the task runs."""


class Record(msgspec.Struct, frozen=True, kw_only=True, order=True):
    attempt: int
    seq: int  # number of the task's last event in this attempt
    state: RecordState
    deliveries: int = 0  # engines that died with it
    losses: int = 0  # nodes lost with it, and engines that died with it and other tasks
    stream: str = ""  # key of its lane
    entry_id: str = ""
    timeout_ms: int = 0  # how long it may run from its claim; 0: no limit
    job_id: str = ""
    # only while it runs
    owner: str = ""
    claimed_at_ms: int = 0
    renewed_at_ms: int = 0
    deadline_ms: int = 0  # 0: none
    cancel: int = 0  # 1: its engine is asked to stop
    progress: str = ""  # JSON, as the engine reported it


_SEQ = {RecordState.WAITING: -1, RecordState.RUNNING: 0, RecordState.SETTLED: 1}
"""From the number in the line to that of the last event: the line of a waiting task has the number of its next event
(its start), a tombstone has the number before its last event."""


_MAX = 10**15
"""No time and no counter of ours is larger; arithmetic with a larger one overflows somewhere."""


def _whole(text: str) -> int:
    value = int(text)
    if not -1 <= value <= _MAX:
        raise ValueError(f"{text[:40]} is no number of ours")
    return value


def decode_record(raw: bytes) -> Record | None:
    """None for bytes that aren't a record: another program wrote them."""
    try:
        state, entry, stream, timeout, job, attempt, seq, deliveries, losses, *rest = raw.decode().split("\t", 14)
        record = Record(
            attempt=_whole(attempt),
            seq=_whole(seq) + _SEQ[RecordState(state)],
            state=RecordState(state),
            deliveries=_whole(deliveries),
            losses=_whole(losses),
            stream=stream,
            entry_id=entry,
            timeout_ms=_whole(timeout),
            job_id=job,
        )
        if record.state is RecordState.SETTLED:
            return msgspec.structs.replace(record, stream="", entry_id="", job_id="")
        if record.state is RecordState.WAITING:
            return record
        owner, claimed, renewed, deadline, cancel, progress = rest
        return msgspec.structs.replace(
            record,
            owner=owner,
            claimed_at_ms=_whole(claimed),
            renewed_at_ms=_whole(renewed),
            deadline_ms=_whole(deadline),
            cancel=_whole(cancel),
            progress=progress,
        )
    except (ValueError, KeyError):  # also bytes that are no UTF-8
        return None
