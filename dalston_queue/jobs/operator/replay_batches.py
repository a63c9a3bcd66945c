"""Replay batches: replays of dead letters that can be undone or that are paced. Orchestrators run them.

A batch waits until `starts_at`. Until then nothing is replayed, and `undo` ends the whole batch. Undo and the first
chunk change the same row, so exactly one of them wins. Then the dead letters are replayed in chunks, each in one
transaction with the batch's progress: a process killed at any moment leaves whole chunks behind, and the next
orchestrator goes on from there. `next_at` keeps the rate, in the row.

The ids of the dead letters are stored when the batch is made: later dead letters are not included. Those that an open
batch with the same changes already has are left out of a second one, so that asking twice replays once.

The batch's row is locked before the jobs. No transaction that holds a job's lock asks for a batch's, so they can't
deadlock.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any
from uuid import UUID

import structlog
from django.contrib.auth.models import AbstractBaseUser
from django.db import DataError, IntegrityError, connection, transaction
from django.utils import timezone

from dalston_queue import crash_points
from dalston_queue.audit.record import audited
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.errors import InvalidJob, JobsError, NothingToReplay
from dalston_queue.jobs.operator.replay import (
    CHUNK,
    TOO_WIDE_HINT,
    Changes,
    Filter,
    Outcome,
    check_files,
    matching,
    replay_chunk,
)
from dalston_queue.jobs.queries.search import bounded
from dalston_queue.models import ApiToken, DeadLetter, ReplayBatch
from dalston_queue.models.replay_batch import LIVE, BatchState

log = structlog.get_logger(__name__)

MAX_DEAD_LETTERS = 100_000
MAX_LIVE = 50
"""Batches that wait or run. A new one reads the ids of all of them, and each may have MAX_DEAD_LETTERS."""
MAX_RATE = 60_000
MAX_UNDO_S = 3_600.0
CREATE_LOCK = 7304872  # an advisory lock
CATCH_UP = timedelta(seconds=2)
"""How much of a missed rate, for instance while no orchestrator ran, is made up for in a burst."""


class Withdrawal(StrEnum):
    """The outcome of an undo or a stop."""

    UNDONE = "undone"  # nothing was replayed
    STOPPED = "stopped"  # the rest is not replayed
    RUNNING = "running"  # too late to undo: dead letters were replayed; the batch can be stopped
    OVER = "over"  # another operator was faster, or it is done: the batch has who and when
    GONE = "gone"  # there is no such batch


@dataclass(frozen=True, slots=True)
class Withdrawn:
    what: Withdrawal
    batch: ReplayBatch | None


def create_replay_batch(
    wanted: Filter | Collection[UUID],
    *,
    actor: str,
    user: AbstractBaseUser | None = None,
    token: ApiToken | None = None,
    reason: str = "",
    parameters: Mapping[str, Any] | None = None,
    priority: Priority | None = None,
    rate_per_minute: int | None = None,
    undo_seconds: float = 10,
    limit: int = MAX_DEAD_LETTERS,
) -> ReplayBatch:
    """Make a batch of all dead letters that match now, the oldest first, or of these ids.

    If an open batch has them all, with the same changes and rate, it is returned with `already_open` set.

    Raises InvalidJob, also when MAX_LIVE batches wait or run, NothingToReplay if there is no such dead letter, and
    SearchTooWide if the search takes too long.
    """
    _check(rate_per_minute, undo_seconds)
    now = timezone.now()
    if isinstance(wanted, Filter):
        rows = matching(wanted).values_list("id", flat=True)[: min(limit, MAX_DEAD_LETTERS)]
        dead_letters = bounded(lambda: list(rows), TOO_WIDE_HINT)
    else:
        there = set(DeadLetter.objects.filter(id__in=wanted).values_list("id", flat=True))
        dead_letters = [dead_letter for dead_letter in dict.fromkeys(wanted) if dead_letter in there][
            : min(limit, MAX_DEAD_LETTERS)
        ]
    check_files(Changes.of(parameters, priority), DeadLetter.objects.filter(id__in=dead_letters))
    if not dead_letters:
        raise NothingToReplay("there is no such dead letter: no batch was made")
    starts_at = now + timedelta(seconds=undo_seconds)
    batch = ReplayBatch(
        user_id=user.pk if user else None,
        token=token,
        actor=actor[:200],
        reason=reason,
        filter=_shown(wanted) if isinstance(wanted, Filter) else None,
        dead_letter_ids=dead_letters,
        parameters=parameters,
        priority=priority or "",
        rate_per_minute=rate_per_minute,
        matched=len(dead_letters),
        created_at=now,
        starts_at=starts_at,
        next_at=starts_at,
    )
    return _create(batch, {"actor": actor, "user": user, "token": token})


@transaction.atomic
def _create(batch: ReplayBatch, signature: Mapping[str, Any]) -> ReplayBatch:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CREATE_LOCK])  # else two at once don't see each other
    named: dict[UUID, ReplayBatch] = {}
    like_it = {"priority": batch.priority, "rate_per_minute": batch.rate_per_minute}
    for other in ReplayBatch.objects.filter(state__in=LIVE, **like_it):
        if other.parameters == batch.parameters:
            named |= dict.fromkeys(other.dead_letter_ids, other)
    fresh = [dead_letter for dead_letter in batch.dead_letter_ids if dead_letter not in named]
    if not fresh:
        found = named[batch.dead_letter_ids[0]]
        found.already_open = True
        return found
    if ReplayBatch.objects.filter(state__in=LIVE).count() >= MAX_LIVE:
        raise InvalidJob(f"{MAX_LIVE} replay batches wait or run already: stop one, or wait for the end of one")
    batch.dead_letter_ids = fresh
    batch.matched = len(batch.dead_letter_ids)
    shown = [str(dead_letter) for dead_letter in batch.dead_letter_ids[:100]]
    before = {"filter": batch.filter, "matched": batch.matched, "ids": shown}
    with audited("dead_letter.replay_batch", str(batch.id), reason=batch.reason, before=before, **signature) as row:
        batch.save(force_insert=True)
        row.after = {"starts_at": batch.starts_at.isoformat(), "rate_per_minute": batch.rate_per_minute}
    return batch


def undo(
    batch_id: UUID, *, actor: str, user: AbstractBaseUser | None = None, token: ApiToken | None = None, reason: str = ""
) -> Withdrawn:
    """End a batch of which nothing was replayed. Of two operators who try, one gets UNDONE, the other OVER."""
    return _withdraw(batch_id, "undo", BatchState.WAITING, actor=actor, user=user, token=token, reason=reason)


def stop(
    batch_id: UUID, *, actor: str, user: AbstractBaseUser | None = None, token: ApiToken | None = None, reason: str = ""
) -> Withdrawn:
    """End the rest of a batch; one that still waits is undone."""
    signature: dict[str, Any] = {"actor": actor, "user": user, "token": token}
    done = undo(batch_id, reason=reason, **signature)
    if done.what is not Withdrawal.RUNNING:
        return done
    return _withdraw(batch_id, "stop", BatchState.RUNNING, reason=reason, **signature)


def _withdraw(batch_id: UUID, verb: str, source: BatchState, *, actor: str, reason: str, **who: Any) -> Withdrawn:
    batch = ReplayBatch.objects.filter(id=batch_id).defer("dead_letter_ids").first()
    if batch is None:
        return Withdrawn(Withdrawal.GONE, None)
    if batch.state != source:
        return _too_late(batch)
    target = BatchState.UNDONE if source is BatchState.WAITING else BatchState.STOPPED
    with audited(f"replay_batch.{verb}", str(batch_id), actor=actor, reason=reason, **who) as row:
        # The compare-and-set. It waits for a chunk that is being replayed, and then sees the state after it.
        won = ReplayBatch.objects.filter(id=batch_id, state=source).update(
            state=target, finished_at=timezone.now(), ended_by=actor[:200]
        )
        batch.refresh_from_db(fields=["state", "handled", "replayed", "already", "refused", "ended_by", "finished_at"])
        row.after = {"state": batch.state, "replayed": batch.replayed, "won": bool(won)}
    return Withdrawn(Withdrawal(target), batch) if won else _too_late(batch)


def _too_late(batch: ReplayBatch) -> Withdrawn:
    return Withdrawn(Withdrawal.RUNNING if batch.state == BatchState.RUNNING else Withdrawal.OVER, batch)


def run_due_batches(now: datetime) -> bool:
    """Replay a chunk of each batch that is due; True if there is more to do at once. Polled each second."""
    with connection.cursor() as cursor:
        cursor.execute(DUE, [now])
        due: list[UUID] = [row[0] for row in cursor.fetchall()]
    more = False
    for batch in due:
        more = _run_batch(batch, now) or more
    return more


DUE = """
    SELECT id FROM dalston_replay_batch
    WHERE state IN ('waiting', 'running') AND next_at <= %s ORDER BY next_at LIMIT 20"""


def _run_batch(batch_id: UUID, now: datetime) -> bool:
    try:
        return _run_chunk(batch_id, now)
    except (DataError, IntegrityError, JobsError) as error:
        # A fault of the batch itself, which every repetition would meet: it must not hold up other batches.
        log.error("a replay batch can't be run", batch=str(batch_id), error=str(error))
        failed = ReplayBatch.objects.filter(id=batch_id, state__in=LIVE)
        failed.update(state=BatchState.STOPPED, finished_at=now, error=str(error))
        return False


@transaction.atomic
def _run_chunk(batch_id: UUID, now: datetime) -> bool:
    rows = ReplayBatch.objects.defer("dead_letter_ids").select_for_update(skip_locked=True)
    batch = rows.filter(id=batch_id, state__in=LIVE, next_at__lte=now).first()
    if batch is None:
        return False  # another orchestrator has it, or it was undone a moment ago
    left = batch.matched - batch.handled
    count, batch.next_at = allowance(batch.next_at, now, batch.rate_per_minute, left)
    priority = Priority(batch.priority) if batch.priority else None
    new = Changes.of(batch.parameters, priority, partial(_asked_for, batch.id))
    dead_letters = _next_dead_letters(batch.id, batch.handled, count)
    outcomes = Counter(done.outcome for done in replay_chunk(dead_letters, now, new).values())
    batch.handled += count
    batch.replayed += outcomes[Outcome.REPLAYED]
    batch.already += outcomes[Outcome.ALREADY]
    batch.refused = batch.handled - batch.replayed - batch.already
    batch.started_at = batch.started_at or now
    over = batch.handled == batch.matched
    batch.state = BatchState.DONE if over else BatchState.RUNNING
    batch.finished_at = now if over else None
    batch.save(update_fields=_PROGRESS)
    crash_points.point("replay_batch.chunk")
    return not over and batch.rate_per_minute is None


def _next_dead_letters(batch_id: UUID, start: int, count: int) -> list[UUID]:
    """The next ids. A batch may have a hundred thousand, so only a slice is read."""
    rows = ReplayBatch.objects.filter(id=batch_id)
    found: list[UUID] = rows.values_list(f"dead_letter_ids__{start}_{start + count}", flat=True)[0]
    return found


def _asked_for(batch_id: UUID, dead_letters: Collection[UUID]) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_ASKED_FOR, [batch_id, list(dead_letters)])
        return [row[0] for row in cursor.fetchall()]


_ASKED_FOR = """
    SELECT named FROM dalston_replay_batch, unnest(dead_letter_ids) AS named WHERE id = %s AND named = ANY(%s)"""
_PROGRESS = ["handled", "replayed", "already", "refused", "state", "next_at", "started_at", "finished_at"]


def allowance(next_at: datetime, now: datetime, rate_per_minute: int | None, left: int) -> tuple[int, datetime]:
    """How many dead letters may be replayed now, and when the next one may."""
    if rate_per_minute is None:
        return min(left, CHUNK), now
    pause = timedelta(minutes=1) / rate_per_minute
    since = max(next_at, now - CATCH_UP)
    count = min(left, CHUNK, 1 + int((now - since) / pause))
    return count, since + count * pause


def _check(rate_per_minute: int | None, undo_seconds: float) -> None:
    if rate_per_minute is not None and not 1 <= rate_per_minute <= MAX_RATE:
        raise InvalidJob(f"the rate is between 1 and {MAX_RATE} dead letters a minute, not {rate_per_minute}")
    if not 0 <= undo_seconds <= MAX_UNDO_S:
        raise InvalidJob(f"a batch can wait for up to {MAX_UNDO_S:.0f} s to be undone, not {undo_seconds}")


def _shown(wanted: Filter) -> dict[str, Any]:
    """The filter as JSON."""
    return {name: str(value) for name, value in asdict(wanted).items() if value is not None}
