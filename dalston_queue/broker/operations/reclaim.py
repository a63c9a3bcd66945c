"""Reclaim: returns the tasks of a dead engine to their queues. Expire: fails one task that overran its time."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from dalston_queue import task_log
from dalston_queue.broker.connection.shard import Argument, Shard, command
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.errors import WrongKeyType
from dalston_queue.broker.operations.lanes import lane_field, read_lanes, streams
from dalston_queue.broker.operations.records import follow
from dalston_queue.broker.protocol.keys import WORK_GROUP
from dalston_queue.broker.protocol.messages import MAX_ENTRY_BYTES, ErrorInfo, encode_error
from dalston_queue.broker.protocol.types import Cause

log = logging.getLogger(__name__)


class Reclaimed(msgspec.Struct, frozen=True, kw_only=True):
    """What one reclaim did. Each task also has its event (task.recovered or task.exhausted)."""

    alive: bool = False  # the beat counter moved since it was judged: nothing was touched
    recovered: tuple[str, ...] = ()  # task ids, waiting again
    exhausted: tuple[str, ...] = ()  # task ids whose delivery budget is used up
    left: bool = False  # it holds more than `at_most`: repeat the call
    lost: tuple[str, ...] = ()  # entry ids whose payload is gone; the reconciler rebuilds them

    @property
    def moved(self) -> int:
        return len(self.recovered) + len(self.exhausted)


class Expired(StrEnum):
    EXPIRED = "expired"  # taken from its owner, task.failed written
    RENEWED = "renewed"  # it was renewed since it was judged: left alone
    ABSENT = "absent"  # not running at this attempt any more


VERDICT = "verdict"  # instead of a counter: reclaim only if the engine is judged dead


Judged = Mapping[str, tuple[int, ...] | str]  # by queue: a counter per shard, or VERDICT


class _Target(NamedTuple):
    """A queue in a shard, and the beat counter that the engine was judged at there ("" for none)."""

    shard: Shard
    queue: str
    judged: int | str


def reclaim(
    topology: Topology,
    engine_id: str,
    queues: Iterable[str],
    cause: Cause = Cause.ENGINE_LOST,
    *,
    judged: Judged | None = None,
    named: str | None = None,
    error: ErrorInfo | None = None,
    max_deliveries: int,
    max_losses: int,
    at_most: int = 0,
) -> Reclaimed:
    """Return everything that this engine holds to its queues, and end its sessions.

    judged: the beat counters at the verdict, rechecked in the script; None: the caller saw the engine die
    (waitpid). cause ENGINE_LOST charges deliveries of the named task, or of the only one it ran, and losses of all
    when it ran several and none is named; NODE_LOST charges losses of all. A task that reaches max_deliveries or
    max_losses is exhausted. at_most: so many tasks in this call, 0 for all; only with NODE_LOST, because how many it
    held decides which one is charged for a crash. error: message and evidence (exit code, log lines) that go into the
    events."""
    error = error or ErrorInfo(message=f"{engine_id} was lost", cause=cause)
    targets = _targets(topology, queues, judged)
    # an engine may hold one task in each of several queues: none of them ran alone
    alone = named is None and (len(targets) == 1 or sum(_held(target, engine_id) for target in targets) == 1)
    charging = (cause, named or "", int(alone), max_deliveries, max_losses, encode_error(error), MAX_ENTRY_BYTES)
    most = at_most if cause is Cause.NODE_LOST else 0
    total = Reclaimed()
    wrong_type: WrongKeyType | None = None
    for target in targets:
        try:
            part = _reclaim(target, engine_id, (*charging, max(0, most - total.moved)))
        except WrongKeyType as failure:  # of one queue: what the engine holds in other queues must not wait for it
            wrong_type = failure
            continue
        total = Reclaimed(
            alive=total.alive or part.alive,
            recovered=total.recovered + part.recovered,
            exhausted=total.exhausted + part.exhausted,
            left=total.left or part.left,
            lost=total.lost + part.lost,
        )
        if most and total.moved >= most:
            # its other queues may hold more: the next call finds out
            total = msgspec.structs.replace(total, left=total.left or target is not targets[-1])
            break
    _log(engine_id, cause, total)
    if wrong_type:
        raise wrong_type
    return total


def _log(engine_id: str, cause: Cause, reclaimed: Reclaimed) -> None:
    """A line per task, in the process that reclaimed it: supervisor, orchestrator or engine."""
    for event, tasks in (("task_reclaimed", reclaimed.recovered), ("task_exhausted", reclaimed.exhausted)):
        rows = [{"event": event, "task_id": task, "engine_id": engine_id, "cause": cause} for task in tasks]
        task_log.write(log, logging.WARNING, rows)


def expire(
    topology: Topology, queue: str, task_id: str, attempt: int, error: ErrorInfo, *, judged_ms: int | None = None
) -> Expired:
    """Take a running task from its owner and report it failed (deadline passed: error.cause TIMEOUT). The supervisor
    calls it before it kills, the scanner 30 s later or after the absolute timeout. judged_ms: the renewed_at_ms that
    was judged too old, rechecked in the script."""
    arguments: list[Argument] = [task_id, attempt, "" if judged_ms is None else judged_ms, encode_error(error)]
    for shard in topology.shards_of(queue):
        (answer,) = follow(shard, "expire", queue, shard.keys.task_keys(queue), [arguments])
        if answer != b"absent":
            return Expired(answer.decode())
    return Expired.ABSENT


def _targets(topology: Topology, queues: Iterable[str], judged: Judged | None) -> list[_Target]:
    found = []
    for queue in queues:
        seen = "" if judged is None else judged.get(queue, ())
        for position, shard in enumerate(topology.shards_of(queue)):
            counter = seen if isinstance(seen, str) else seen[position] if position < len(seen) else 0
            found.append(_Target(shard, queue, counter))
    return found


def _held(target: _Target, engine_id: str) -> int:
    shard, queue, _ = target
    try:
        keys = streams(shard, queue)
    except WrongKeyType:
        return 2  # unknown, so no task ran alone
    asked = [command("XPENDING", key, WORK_GROUP, "-", "+", 2, engine_id) for key in keys]
    replies = shard.calls(asked)  # an error: no such group, so nothing is held there
    return sum(len(reply) for reply in replies if isinstance(reply, list))


def _reclaim(target: _Target, engine: str, charging: Iterable[Argument]) -> Reclaimed:
    shard, queue, judged = target
    keys = shard.keys
    while True:  # again, if a lane was added between the read and the script
        lanes = read_lanes(shard, queue)
        sets = lanes.capabilities
        names = [
            keys.session(queue, engine),
            *keys.task_keys(queue),
            keys.beats(queue),
            keys.verdicts(queue),
            keys.lanes(queue),
            *(keys.wake(queue, lane) for lane in sets),
            *(key for lane in sets for key in keys.lane(queue, lane)),
        ]
        arguments = [engine, judged, lanes.version or "", len(sets), *charging, *map(lane_field, sets)]
        status, *parts = shard.run("reclaim", names, arguments)
        if status == b"ALIVE":
            return Reclaimed(alive=True)
        if status == b"OK":
            recovered, exhausted, lost = (tuple(item.decode() for item in part) for part in parts[:3])
            return Reclaimed(recovered=recovered, exhausted=exhausted, lost=lost, left=parts[3] == 1)
