"""Append: adds attempts of tasks to their streams, and hints about created jobs to theirs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dalston_queue.broker.connection.faults import is_wrong_type
from dalston_queue.broker.connection.shard import Argument, Call, Shard, command, script
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.errors import Invalid, TooManyLanes, WrongKeyType
from dalston_queue.broker.operations.cancel import cancel
from dalston_queue.broker.operations.lanes import retire_empty
from dalston_queue.broker.operations.records import read_records
from dalston_queue.broker.protocol.keys import JOBS, MAX_LANES, check_name, join_capabilities
from dalston_queue.broker.protocol.messages import Event, TaskMessage, encode_head, encode_task
from dalston_queue.broker.protocol.record import Record
from dalston_queue.broker.protocol.types import Appended, EventKind, Tier, tier_number

_ID = re.compile(r"[!-~]{1,200}")  # heads of events are lines of tab-separated fields
BATCH = 100  # messages per script: the server does other work in between
SUSPECT_FROM = 2  # deliveries; include/lane.lua has the same
_ANSWERS = frozenset(Appended)
JOB_HINTS = 100_000  # hints kept when no orchestrator reads them


class _Lane:
    """Messages of one call that go to one stream."""

    def __init__(self, shard: Shard, queue: str, capabilities: str, tier: Tier) -> None:
        self.shard, self.queue, self.capabilities, self.tier = shard, queue, capabilities, tier
        self.positions: list[int] = []
        self.encoded: list[list[str | bytes | int]] = []

    def call(self, start: int, stop: int, other: str | None = None) -> Call:
        keys, queue = self.shard.keys, self.queue
        arguments: list[Argument] = [self.capabilities, MAX_LANES - 1, tier_number(self.tier)]
        for encoded in self.encoded[start:stop]:
            arguments.extend(encoded)
        names = [
            keys.tasks(queue),
            keys.lanes(queue),
            keys.wake(queue, self.capabilities),
            keys.counters(queue),
            keys.running(queue),
            keys.deadlines(queue),
            keys.stream(queue, self.capabilities, self.tier),
        ]
        return script("append", [*names, other] if other else names, arguments)


def append(topology: Topology, messages: Sequence[TaskMessage]) -> list[Appended]:
    """Append attempts, in one pipeline; the answers in order. Repeatable: by task and attempt, and by the entry's
    existence (a record whose entry is gone gets a new one). A live entry of an older attempt is removed first. Raises
    Denied when Redis is out of memory, Invalid for a bad message (nothing appended), TooManyLanes or WrongKeyType when
    a lane can't be used: what goes to other lanes may be appended then, and can be repeated."""
    for message in messages:
        if not _ID.fullmatch(message.task_id) or not _ID.fullmatch(message.job_id) or message.attempt < 1:
            raise Invalid(
                f"task {message.task_id!r} attempt {message.attempt}: "
                "ids have 1 to 200 printable ASCII characters, attempts start at 1"
            )
        check_name("queue", message.queue)
    known = _known(topology, messages)
    lanes: dict[tuple[int, str, str, Tier], _Lane] = {}
    for position, message in enumerate(messages):
        queue, capabilities = message.queue, join_capabilities(message.required_capabilities)
        tier = Tier.SUSPECT if message.deliveries >= SUSPECT_FROM else Tier(message.priority)
        shard = topology.shard_for(queue, message.priority)
        if message.task_id in known:
            record, home = known[message.task_id]
            if record.attempt >= message.attempt:
                shard = home  # its priority has changed since: in another shard it would have a second entry
            elif home is not shard:  # no script sees both shards; if the task runs, its engine is asked to stop
                cancel(home, queue, [(message.task_id, record.attempt)], flag=True)
        key = (shard.index, queue, capabilities, tier)
        if key not in lanes:
            lanes[key] = _Lane(shard, queue, capabilities, tier)
        lanes[key].positions.append(position)
        lanes[key].encoded.append(encode_task(message))
    answers: dict[int, Appended] = {}
    for shard in topology.shards:
        _append_to(shard, [lane for lane in lanes.values() if lane.shard is shard], answers)
    return [answers[position] for position in range(len(messages))]


def _known(topology: Topology, messages: Sequence[TaskMessage]) -> dict[str, tuple[Record, Shard]]:
    """The records of tasks in queues of several shards: the shard that knows an attempt decides about it."""
    found: dict[str, tuple[Record, Shard]] = {}
    by_queue: dict[str, list[str]] = {}
    for message in messages:
        by_queue.setdefault(message.queue, []).append(message.task_id)
    for queue, tasks in by_queue.items():
        shards = topology.shards_of(queue)
        for shard in shards if len(shards) > 1 else ():
            for task, record in read_records(shard, queue, tasks).items():
                if task not in found or record > found[task][0]:
                    found[task] = (record, shard)
    return found


def _append_to(shard: Shard, lanes: list[_Lane], answers: dict[int, Appended]) -> None:
    if not lanes:
        return
    batches = [(lane, start, start + BATCH) for lane in lanes for start in range(0, len(lane.positions), BATCH)]
    # The name of the queue: each time, because a flush may have deleted it; first, because a server that is full after
    # an append must not hold a queue without a name; and last, because the queue may be forgotten in between.
    named = command("SADD", shard.keys.stages(), *{lane.queue for lane in lanes})
    answered, *replies, _ = shard.calls([named, *(lane.call(start, stop) for lane, start, stop in batches), named])
    shard.checked(answered)
    for (lane, start, stop), first in zip(batches, replies, strict=True):
        if is_wrong_type(first):
            tier = shard.keys.stream(lane.queue, lane.capabilities, lane.tier)
            raise WrongKeyType(
                f"nothing can be appended to {tier}: its key, or one beside it, has another type than ours. "
                "Find it with TYPE and delete it"
            )
        again = first == b"LANES" and retire_empty(shard, lane.queue)
        reply = shard.call(lane.call(start, stop)) if again else first
        if reply == b"LANES":
            raise TooManyLanes(
                f"queue {lane.queue} has {MAX_LANES - 1} capability sets and none of them is empty: "
                f"{lane.capabilities} can't be added; use fewer combinations of required_capabilities"
            )
        for offset, answer in enumerate(shard.checked(reply), start):
            answers[lane.positions[offset]] = _decided(shard, lane, offset, answer)


def _decided(shard: Shard, lane: _Lane, position: int, answer: bytes) -> Appended:
    """The answer for one message. The script may name a stream that it needs as a key before it can decide: then it
    runs again."""
    while answer.decode() not in _ANSWERS:
        (answer,) = shard.call(lane.call(position, position + 1, other=answer.decode()))
    return Appended(answer.decode())


def publish_jobs_created(topology: Topology, job_ids: Iterable[str]) -> None:
    """A hint for the orchestrators (capped; pending jobs are polled as well)."""
    home = topology.home
    key = home.keys.events(JOBS)
    heads = (encode_head(Event(kind=EventKind.JOB_CREATED, job_id=job)) for job in job_ids)
    home.all([command("XADD", key, "MAXLEN", "~", JOB_HINTS, "*", "h", head) for head in heads])
