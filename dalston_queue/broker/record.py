"""The record of a live task: one field of the hash `tasks:S`, packed by the scripts (cmsgpack), read here.

The field order is shared with `lua/include/record.lua`.
"""

from __future__ import annotations

import msgspec

from dalston_queue.broker.types import RecordState


class Record(msgspec.Struct, frozen=True, array_like=True, order=True):
    attempt: int
    seq: int  # number of the task's last event in this attempt
    state: RecordState
    deliveries: int = 0  # engines that died with it
    losses: int = 0  # nodes that got lost with it
    stream: str = ""  # key of its lane
    entry_id: str = ""
    aged: int = 0  # 1: listed in `ageing:S`, because its place in line doesn't show its age
    # what follows is there only while it runs
    owner: str = ""
    job_id: str = ""
    claimed_at_ms: int = 0
    renewed_at_ms: int = 0
    deadline_ms: int = 0  # 0: none
    cancel: int = 0  # 1: its engine is asked to stop
    progress: str = ""  # JSON, as the engine reported it


def decode_record(raw: bytes) -> Record | None:
    """None for bytes that aren't a record (a foreign hand in the hash)."""
    try:
        return _decoder.decode(raw)
    except msgspec.MsgspecError:
        return None


_decoder = msgspec.msgpack.Decoder(Record)
