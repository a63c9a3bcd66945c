"""Replays that can be undone, or that go slowly: an operator gives an order, the orchestrators carry it out.

An order waits until `starts_at`; while it waits nothing of it has happened, and `undo` takes it back whole. Undo and
the first batch want the same row, so exactly one of them wins. Then the letters are taken back in batches, each in one
transaction with the order's own count of how far it got: a process killed at any moment leaves whole batches behind it,
and the next orchestrator goes on from there.

The letters are named when the order is made: what arrives later is not swept in. `next_at` keeps the rate, in the row,
whichever orchestrator comes next.

Ordering twice is ordering once: letters that an open order takes back in the same way are not named by a second one.

The order's row is locked before the jobs. Nobody who holds a job's lock asks for an order's, so they can't deadlock.
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
from dalston_queue.jobs.operator.replay import BATCH, NARROWER, Changes, Filter, Outcome, matching, replay_batch
from dalston_queue.jobs.queries.search import bounded
from dalston_queue.models import ApiToken, DeadLetter, ReplayBatch
from dalston_queue.models.replay_batch import LIVE, OrderState

log = structlog.get_logger(__name__)

MAX_LETTERS = 100_000
MAX_RATE = 60_000
MAX_UNDO_S = 3_600.0
ORDERING = 7304872  # an advisory lock
CATCH_UP = timedelta(seconds=2)
"""How much of the rate that was missed, for instance while no orchestrator ran, is made up for in a burst."""


class Withdrawal(StrEnum):
    """What became of an undo or a stop."""

    UNDONE = "undone"  # nothing of it has happened, nothing will
    STOPPED = "stopped"  # the rest will not happen
    RUNNING = "running"  # too late to undo: letters were taken back; it can be stopped
    OVER = "over"  # somebody was faster, or it is done: the order says who and when
    GONE = "gone"  # there is no such order


@dataclass(frozen=True, slots=True)
class Withdrawn:
    what: Withdrawal
    order: ReplayBatch | None


def order_replay(
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
    limit: int = MAX_LETTERS,
) -> ReplayBatch:
    """Order the replay of all that match now, the oldest first, or of these letters.

    If an open order names them all, with the same changes and rate, it is returned, and says `already_open`.

    Raises InvalidJob, NothingToReplay if there is none of them, and SearchTooWide if it takes too long to find them.
    """
    _check(rate_per_minute, undo_seconds)
    now = timezone.now()
    if isinstance(wanted, Filter):
        rows = matching(wanted).values_list("id", flat=True)[: min(limit, MAX_LETTERS)]
        letters = bounded(lambda: list(rows), NARROWER)
    else:
        there = set(DeadLetter.objects.filter(id__in=wanted).values_list("id", flat=True))
        letters = [letter for letter in dict.fromkeys(wanted) if letter in there][: min(limit, MAX_LETTERS)]
    Changes.of(parameters, priority)
    if not letters:
        raise NothingToReplay("there is no such dead letter: nothing was ordered")
    starts_at = now + timedelta(seconds=undo_seconds)
    order = ReplayBatch(
        user_id=user.pk if user else None,
        token=token,
        actor=actor[:200],
        reason=reason,
        filter=_shown(wanted) if isinstance(wanted, Filter) else None,
        letter_ids=letters,
        parameters=parameters,
        priority=priority or "",
        rate_per_minute=rate_per_minute,
        matched=len(letters),
        created_at=now,
        starts_at=starts_at,
        next_at=starts_at,
    )
    return _place(order, {"actor": actor, "user": user, "token": token})


@transaction.atomic
def _place(order: ReplayBatch, signature: Mapping[str, Any]) -> ReplayBatch:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [ORDERING])  # else two at once don't see each other
    named: dict[UUID, ReplayBatch] = {}
    like_it = {"priority": order.priority, "rate_per_minute": order.rate_per_minute}
    for other in ReplayBatch.objects.filter(state__in=LIVE, **like_it):
        if other.parameters == order.parameters:
            named |= dict.fromkeys(other.letter_ids, other)
    fresh = [letter for letter in order.letter_ids if letter not in named]
    if not fresh:
        found = named[order.letter_ids[0]]
        found.already_open = True
        return found
    order.letter_ids = fresh
    order.matched = len(order.letter_ids)
    shown = [str(letter) for letter in order.letter_ids[:100]]
    before = {"filter": order.filter, "matched": order.matched, "ids": shown}
    with audited("dead_letter.replay_batch", str(order.id), reason=order.reason, before=before, **signature) as row:
        order.save(force_insert=True)
        row.after = {"starts_at": order.starts_at.isoformat(), "rate_per_minute": order.rate_per_minute}
    return order


def undo(
    order_id: UUID, *, actor: str, user: AbstractBaseUser | None = None, token: ApiToken | None = None, reason: str = ""
) -> Withdrawn:
    """Take an order back whole, if nothing of it has happened. Of two who try one is told UNDONE, the other OVER."""
    return _withdraw(order_id, "undo", OrderState.WAITING, actor=actor, user=user, token=token, reason=reason)


def stop(
    order_id: UUID, *, actor: str, user: AbstractBaseUser | None = None, token: ApiToken | None = None, reason: str = ""
) -> Withdrawn:
    """Let the rest of an order be. One that still waits is undone by it: that is all of it."""
    signature: dict[str, Any] = {"actor": actor, "user": user, "token": token}
    done = undo(order_id, reason=reason, **signature)
    if done.what is not Withdrawal.RUNNING:
        return done
    return _withdraw(order_id, "stop", OrderState.RUNNING, reason=reason, **signature)


def _withdraw(order_id: UUID, verb: str, source: OrderState, *, actor: str, reason: str, **who: Any) -> Withdrawn:
    order = ReplayBatch.objects.filter(id=order_id).defer("letter_ids").first()
    if order is None:
        return Withdrawn(Withdrawal.GONE, None)
    if order.state != source:
        return _too_late(order)
    target = OrderState.UNDONE if source is OrderState.WAITING else OrderState.STOPPED
    with audited(f"replay_batch.{verb}", str(order_id), actor=actor, reason=reason, **who) as row:
        # The compare-and-set. It waits for a batch that is being carried out, and then sees what that batch made of it.
        won = ReplayBatch.objects.filter(id=order_id, state=source).update(
            state=target, finished_at=timezone.now(), ended_by=actor[:200]
        )
        order.refresh_from_db(fields=["state", "handled", "replayed", "already", "refused", "ended_by", "finished_at"])
        row.after = {"state": order.state, "replayed": order.replayed, "won": bool(won)}
    return Withdrawn(Withdrawal(target), order) if won else _too_late(order)


def _too_late(order: ReplayBatch) -> Withdrawn:
    return Withdrawn(Withdrawal.RUNNING if order.state == OrderState.RUNNING else Withdrawal.OVER, order)


def carry_out(now: datetime) -> bool:
    """A batch of each order that is due; True if there is more to do at once. For orchestrators, each second."""
    with connection.cursor() as cursor:
        cursor.execute(DUE, [now])
        due: list[UUID] = [row[0] for row in cursor.fetchall()]
    more = False
    for order in due:
        more = _carry_out(order, now) or more
    return more


DUE = """
    SELECT id FROM dalston_replay_batch
    WHERE state IN ('waiting', 'running') AND next_at <= %s ORDER BY next_at LIMIT 20"""


def _carry_out(order_id: UUID, now: datetime) -> bool:
    try:
        return _batch(order_id, now)
    except (DataError, IntegrityError, JobsError) as error:
        # The fault of this order, today and at every repetition: it must not hold up the others.
        log.error("a replay order can't be carried out", order=str(order_id), error=str(error))
        failed = ReplayBatch.objects.filter(id=order_id, state__in=LIVE)
        failed.update(state=OrderState.STOPPED, finished_at=now, error=str(error))
        return False


@transaction.atomic
def _batch(order_id: UUID, now: datetime) -> bool:
    rows = ReplayBatch.objects.defer("letter_ids").select_for_update(skip_locked=True)
    order = rows.filter(id=order_id, state__in=LIVE, next_at__lte=now).first()
    if order is None:
        return False  # another orchestrator has it, or it was undone a moment ago
    left = order.matched - order.handled
    count, order.next_at = allowance(order.next_at, now, order.rate_per_minute, left)
    priority = Priority(order.priority) if order.priority else None
    new = Changes.of(order.parameters, priority, partial(_asked_for, order.id))
    letters = _letters(order.id, order.handled, count)
    outcomes = Counter(done.outcome for done in replay_batch(letters, now, new).values())
    order.handled += count
    order.replayed += outcomes[Outcome.REPLAYED]
    order.already += outcomes[Outcome.ALREADY]
    order.refused = order.handled - order.replayed - order.already
    order.started_at = order.started_at or now
    over = order.handled == order.matched
    order.state = OrderState.DONE if over else OrderState.RUNNING
    order.finished_at = now if over else None
    order.save(update_fields=_PROGRESS)
    crash_points.point("replay_batch.batch")
    return not over and order.rate_per_minute is None


def _letters(order_id: UUID, start: int, count: int) -> list[UUID]:
    """The next ones. An order may have a hundred thousand, and a batch has no use for the others."""
    rows = ReplayBatch.objects.filter(id=order_id)
    found: list[UUID] = rows.values_list(f"letter_ids__{start}_{start + count}", flat=True)[0]
    return found


def _asked_for(order_id: UUID, letters: Collection[UUID]) -> list[UUID]:
    with connection.cursor() as cursor:
        cursor.execute(_ASKED_FOR, [order_id, list(letters)])
        return [row[0] for row in cursor.fetchall()]


_ASKED_FOR = """
    SELECT letter FROM dalston_replay_batch, unnest(letter_ids) AS letter WHERE id = %s AND letter = ANY(%s)"""
_PROGRESS = ["handled", "replayed", "already", "refused", "state", "next_at", "started_at", "finished_at"]


def allowance(next_at: datetime, now: datetime, rate_per_minute: int | None, left: int) -> tuple[int, datetime]:
    """How many letters may be taken back now, and when the next one may."""
    if rate_per_minute is None:
        return min(left, BATCH), now
    pause = timedelta(minutes=1) / rate_per_minute
    since = max(next_at, now - CATCH_UP)
    count = min(left, BATCH, 1 + int((now - since) / pause))
    return count, since + count * pause


def _check(rate_per_minute: int | None, undo_seconds: float) -> None:
    if rate_per_minute is not None and not 1 <= rate_per_minute <= MAX_RATE:
        raise InvalidJob(f"the rate is between 1 and {MAX_RATE} letters a minute, not {rate_per_minute}")
    if not 0 <= undo_seconds <= MAX_UNDO_S:
        raise InvalidJob(f"an order can wait for up to {MAX_UNDO_S:.0f} s to be undone, not {undo_seconds}")


def _shown(wanted: Filter) -> dict[str, Any]:
    """What was asked for, as JSON."""
    given = {name: value for name, value in asdict(wanted).items() if value is not None}
    return {name: value if isinstance(value, str) else str(value) for name, value in given.items()}
