"""Messages: the task in a work stream, the outcome of an attempt, the event in an event stream.

A work entry has `t`, the task, `h`, a line of version, job, attempt, first enqueued at and timeout in ms, and `m`, the
rest as JSON. An event has `h`, its head as a line of tab-separated fields, and `m`, its result or error as JSON;
several events may share an entry, a line each. Unknown JSON fields are ignored, so a newer sender doesn't break an
older reader. Decoding never raises on bad bytes: it returns a Malformed with the raw fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dalston_queue.broker.errors import Invalid
from dalston_queue.broker.protocol.record import ATTEMPT, DELIVERIES, JOB, LOSSES, SEQ
from dalston_queue.broker.protocol.types import Cause, EventKind, Priority, Tier

MAX_ENTRY_BYTES = 8 * 1024 * 1024  # parameters plus the parents' results; anything larger is malformed
MAX_EVIDENCE_BYTES = 4096  # of a report that can't be read


class TaskMessage(msgspec.Struct, frozen=True):
    """One attempt of one task, as dispatch appends it and an engine gets it."""

    task_id: str
    job_id: str
    queue: str
    task_type: str
    attempt: int
    stage: str = ""  # the task's name in its job; empty means the same as queue
    priority: Priority = Priority.MEDIUM
    required_capabilities: tuple[str, ...] = ()
    parameters: Any = None
    inputs: Any = None  # results of the parents by stage
    timeout_ms: int = 0  # 0: no deadline
    enqueued_at_ms: int = 0  # the first time, kept by moves and rebuilds; 0 means now
    trace_id: str = ""
    deliveries: int = 0  # engines that died with it before; a rebuild keeps the count
    losses: int = 0
    seq: int = 0  # number of the task's last event before; kept by moves and rebuilds, as event numbers only grow


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    message: str
    type: str = ""
    cause: Cause = Cause.ERROR
    retriable: bool | None = None  # None: the cause decides
    retry_after_s: float | None = None
    traceback: str = ""
    evidence: Any = None


class Completed(msgspec.Struct, frozen=True):
    result: Any = None


class Failed(msgspec.Struct, frozen=True):
    error: ErrorInfo


class Cancelled(msgspec.Struct, frozen=True):
    message: str = "cancelled on request"


Outcome = Completed | Failed | Cancelled


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One report. (attempt, seq) grows for a task; apply an event only if it is greater than what the row has."""

    kind: EventKind
    job_id: str
    task_id: str = ""
    queue: str = ""
    attempt: int = 0
    seq: int = 0
    deliveries: int = 0  # engines that died with it
    losses: int = 0  # nodes lost with it, and engines that died with it and other tasks
    engine_id: str = ""
    at_ms: int = 0  # by the clock of the Redis server
    tier: Tier | None = None
    result: Any = None
    error: ErrorInfo | None = None
    raw: dict[str, bytes] | None = None  # task.dead_lettered only: the fields of the unreadable entry
    stream: str = ""
    entry_id: str = ""
    shard: int = 0
    part: int = 0  # events that one call of an engine reports may share an entry
    parts: int = 1


class Malformed(msgspec.Struct, frozen=True, kw_only=True):
    """An entry or event that can't be read: dead-letter it raw, then acknowledge it."""

    reason: str
    raw: dict[str, bytes]
    queue: str = ""
    stream: str = ""
    entry_id: str = ""
    shard: int = 0


class _Body(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`m` of a work entry."""

    task_type: str
    stage: str = ""
    priority: Priority = Priority.MEDIUM
    required_capabilities: tuple[str, ...] = ()
    parameters: Any = None
    inputs: Any = None
    trace_id: str = ""


class _EventBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`m` of an event."""

    result: Any = None
    error: ErrorInfo | None = None


_COMPLETED = EventKind.TASK_COMPLETED  # an enum's attribute is slow on the hot path
_encoder = msgspec.json.Encoder()
_NO_RESULT = _encoder.encode(_EventBody())
_decode_body_of_task = msgspec.json.Decoder(_Body).decode
_event_decoder = msgspec.json.Decoder(_EventBody)
_raw_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])


def encode_task(message: TaskMessage) -> list[str | bytes | int]:
    """What append.lua takes per message: task, job, attempt, enqueued_at, timeout, deliveries, losses, seq, JSON."""
    body = _Body(
        task_type=message.task_type,
        stage=message.stage if message.stage != message.queue else "",
        priority=message.priority,
        required_capabilities=message.required_capabilities,
        parameters=message.parameters,
        inputs=message.inputs,
        trace_id=message.trace_id,
    )
    try:
        encoded = _encoder.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"task {message.task_id} has parameters or inputs that are not JSON: {error}") from error
    if len(encoded) + 1024 > MAX_ENTRY_BYTES:
        raise Invalid(f"task {message.task_id} is {len(encoded)} bytes large, more than {MAX_ENTRY_BYTES}")
    return [
        message.task_id,
        message.job_id,
        message.attempt,
        message.enqueued_at_ms,
        message.timeout_ms,
        message.deliveries,
        message.losses,
        message.seq,
        encoded,
    ]


def decode_task(queue: str, task_id: bytes, record: Sequence[bytes], head: bytes, raw: bytes) -> TaskMessage | str:
    """From the task's id, the fields of its record, and the head and JSON of its entry. A string says what is wrong."""
    try:
        attempt = record[ATTEMPT]
        body = _decode_body_of_task(raw)
        # a newer sender may add fields at the end
        _, _, entry_attempt, enqueued_at_ms, timeout_ms = head.split(b"\t", 5)[:5]
        if not record[SEQ].isdigit():
            return f"the entry can not be read: the number of events in its record is {record[SEQ][:20]!r}"
        if entry_attempt != attempt:
            return f"the entry can not be read: it is of attempt {entry_attempt[:20]!r}, and its record of {attempt!r}"
        return TaskMessage(  # positional: keywords take longer
            task_id.decode(),
            record[JOB].decode(),
            queue,
            body.task_type,
            int(attempt),
            body.stage or queue,
            body.priority,
            body.required_capabilities,
            body.parameters,
            body.inputs,
            int(timeout_ms),
            int(enqueued_at_ms),
            body.trace_id,
            int(record[DELIVERIES]),
            int(record[LOSSES]),
        )
    except IndexError:
        return "the entry can not be read: its record has too few fields"
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return f"the entry can not be read: {error}"


def encode_outcome(outcome: Outcome) -> tuple[EventKind, bytes]:
    if isinstance(outcome, Completed):
        return _COMPLETED, _NO_RESULT if outcome.result is None else _one_line(_EventBody(result=outcome.result))
    if isinstance(outcome, Cancelled):
        error = ErrorInfo(message=outcome.message, cause=Cause.CANCELLED)
        return EventKind.TASK_CANCELLED, _one_line(_EventBody(error=error))
    return EventKind.TASK_FAILED, _one_line(_EventBody(error=outcome.error))


def _one_line(body: _EventBody) -> bytes:
    """Several bodies share an entry, a line each. JSON that an engine encoded itself (msgspec.Raw) may have line
    breaks; in JSON they are between values only."""
    return _encoder.encode(body).replace(b"\n", b" ")


def encode_head(event: Event) -> str:
    """As include/event.lua writes it."""
    numbers = (event.attempt, event.seq, event.deliveries, event.losses)
    fields = (event.kind, event.task_id, event.job_id, *numbers, event.engine_id, event.at_ms, event.tier or "")
    return "\t".join(map(str, fields))


def encode_error(error: ErrorInfo | None) -> bytes:
    """The body of an event that a script writes for the caller."""
    return _encoder.encode(_EventBody(error=error)) if error else b""


def decode_events(
    queue: str, stream: str, shard: int, entry_id: str, fields: Sequence[bytes]
) -> list[Event | Malformed]:
    """From an event stream's flat field list: a head line per event, and a body line for each of the first ones. If
    only the body of an attempt's end can't be read, the attempt failed: without its event the task would wait for
    ever."""
    values = dict(zip(fields[::2], fields[1::2], strict=False))
    try:
        # an id of invalid bytes must not make the other events of the entry unreadable
        heads = values[b"h"].decode(errors="backslashreplace").split("\n")
        body = values.get(b"m", b"")
        # only events that end an attempt have a body; a single body is not split
        ends = sum(EventKind(head.partition("\t")[0]).ends_attempt for head in heads)
        bodies = body.split(b"\n") if ends > 1 else [body]
        raw = _raw_fields(values[b"raw"]) if b"raw" in values else None
        events = []
        for part, head in enumerate(heads):
            name, task, job, attempt, seq, deliveries, losses, engine, at, tier = head.split("\t")
            kind, result, error = _decode_body(EventKind(name), bodies[part] if part < len(bodies) else b"")
            events.append(
                Event(
                    kind=kind,
                    job_id=job,
                    task_id=task,
                    queue=queue,
                    attempt=int(attempt),
                    seq=int(seq),
                    deliveries=int(deliveries),
                    losses=int(losses),
                    engine_id=engine,
                    at_ms=int(at or entry_id.partition("-")[0]),
                    tier=Tier(tier) if tier else None,
                    result=result,
                    error=error,
                    raw=raw,
                    stream=stream,
                    entry_id=entry_id,
                    shard=shard,
                    part=part,
                    parts=len(heads),
                )
            )
        return list(events)
    except (KeyError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        return [
            Malformed(
                reason=f"the event can't be read: {type(error).__name__} {error}",
                raw={name.decode(errors="backslashreplace"): value for name, value in values.items()},
                queue=queue,
                stream=stream,
                entry_id=entry_id,
                shard=shard,
            )
        ]


def _decode_body(kind: EventKind, raw: bytes) -> tuple[EventKind, Any, ErrorInfo | None]:
    if not raw:
        return kind, None, None
    try:
        body = _event_decoder.decode(raw)
        return kind, body.result, body.error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        if not kind.ends_attempt:
            raise
        return EventKind.TASK_FAILED, None, _unreadable(kind, raw, error)


def _unreadable(kind: EventKind, body: bytes, error: Exception) -> ErrorInfo:
    """The error of an attempt whose engine reported its end with a body that can't be read."""
    start = body[:MAX_EVIDENCE_BYTES].decode(errors="backslashreplace")
    return ErrorInfo(
        message=f"what its engine reported with {kind} can't be read: {error}",
        type="UnreadableReport",
        cause=Cause.REJECTED,
        evidence={"kind": kind, "bytes": len(body), "start": start},
    )


def _raw_fields(packed: bytes) -> dict[str, bytes]:
    """The fields of a dead_lettered entry. cmsgpack writes Lua strings as text, whatever bytes they are, so no
    decoder that checks UTF-8 can be used on them: only the framing is decoded, then the header of each string
    is cut off."""
    items = [_string_bytes(bytes(item)) for item in _raw_decoder.decode(packed)]
    return {name.decode(errors="backslashreplace"): value for name, value in zip(items[::2], items[1::2], strict=False)}


def _string_bytes(item: bytes) -> bytes:
    head = item[0]
    if 0xA0 <= head <= 0xBF:  # fixstr
        return item[1:]
    return item[{0xD9: 2, 0xDA: 3, 0xDB: 5}.get(head, 0) :]
