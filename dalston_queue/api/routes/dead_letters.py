"""/dead_letters: list, group, read, replay and discard dead letters."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.db.models import Count, Max, Min
from django.http import HttpRequest
from django.utils import timezone
from ninja import Body, Path, Query, Router, Status

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import Principal, principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.requests.body import check_size
from dalston_queue.api.requests.lists import AS_CSV, Format, ListFormat, page
from dalston_queue.api.schemas.base import Cursor, Limit, Page, Reason
from dalston_queue.api.schemas.dead_letters import (
    MAX_REPLAY,
    DeadLetterOut,
    DiscardOut,
    GroupOut,
    PatternsOut,
    ReplayBatchOut,
    ReplayedOut,
    ReplayIn,
    ReplayManyIn,
    ReplayManyOut,
    WantedQuery,
    dead_letter_out,
    patterns_out,
    replay_batch_out,
)
from dalston_queue.audit.record import audited
from dalston_queue.jobs.errors import NothingToReplay, sentence
from dalston_queue.jobs.operator.replay import TOO_WIDE_HINT, Filter, Outcome, Replayed, discard, matching, replay
from dalston_queue.jobs.operator.replay_batches import create_replay_batch
from dalston_queue.jobs.queries.dead_letters import patterns
from dalston_queue.jobs.queries.search import bounded
from dalston_queue.models import DeadLetter, ReplayBatch
from dalston_queue.models.accounts import Scope
from dalston_queue.models.dead_letter import OPEN

router = Router(tags=["dead letters"])

DeadLetterId = Annotated[UUID, Path()]


@router.get(
    "/dead_letters", auth=needs(Scope.READ), response=answers({200: Page[DeadLetterOut]}), openapi_extra=AS_CSV
)  # fmt: skip
def list_dead_letters(
    request: HttpRequest,
    wanted: Annotated[WantedQuery, Query()],
    limit: Limit = 50,
    cursor: Cursor = None,
    form: Format = ListFormat.JSON,
) -> Any:
    """Open dead letters, newest first."""
    letters = matching(wanted.filter(principal_of(request).only_project)).defer("traceback", "raw")
    return page(letters, dead_letter_out, limit, cursor, out=DeadLetterOut, wanted=form)


@router.get("/dead_letters/groups", auth=needs(Scope.READ), response=answers({200: list[GroupOut]}))
def group_dead_letters(
    request: HttpRequest, wanted: Annotated[WantedQuery, Query()], limit: Limit = 50
) -> list[GroupOut]:
    """Open dead letters by fingerprint, the largest group first."""
    letters = matching(wanted.filter(principal_of(request).only_project)).order_by()
    groups = letters.values("fingerprint").annotate(
        count=Count("id"),
        first_at=Min("created_at"),
        last_at=Max("created_at"),
        a_queue=Min("queue"),
        a_cause=Min("cause"),
        an_error=Min("error"),
    )
    found = bounded(lambda: list(groups.order_by("-count", "fingerprint")[:limit]), TOO_WIDE_HINT)
    return [
        GroupOut(
            fingerprint=group["fingerprint"],
            count=group["count"],
            queue=group["a_queue"],
            cause=group["a_cause"],
            error=group["an_error"],
            first_at=group["first_at"],
            last_at=group["last_at"],
        )
        for group in found
    ]


@router.get("/dead_letters/patterns", auth=needs(Scope.READ), response=answers({200: PatternsOut}))
def dead_letter_patterns(request: HttpRequest, wanted: Annotated[WantedQuery, Query()]) -> PatternsOut:
    """What the open dead letters of the last day have in common: cause, queue, node, engine, project and hour."""
    return patterns_out(patterns(wanted.filter(principal_of(request).only_project), timezone.now()))


@router.get("/dead_letters/{dead_letter_id}", auth=needs(Scope.READ), response=answers({200: DeadLetterOut}, 404))
def read_dead_letter(request: HttpRequest, dead_letter_id: DeadLetterId) -> DeadLetterOut:
    """One dead letter, open or closed, with its evidence, its traceback and its raw fields."""
    letters = DeadLetter.objects.filter(pk=dead_letter_id)
    letter = principal_of(request).visible(letters, "task__job__project_id").first()
    if letter is None:
        raise not_found(f"dead letter {dead_letter_id}")
    return dead_letter_out(letter, whole=True)


@router.post(
    "/dead_letters/{dead_letter_id}/replay",
    auth=needs(Scope.OPERATE),
    response=answers({200: ReplayedOut}, 400, 404, 409, 413),
)
def replay_dead_letter(
    request: HttpRequest, dead_letter_id: DeadLetterId, body: Annotated[ReplayIn, Body()]
) -> ReplayedOut:
    """Replay one dead letter, named by its id or by that of its task: the same task with fresh retries, as the next
    attempt. Safe to repeat."""
    [done] = _replay(principal_of(request), [_of_task(dead_letter_id) or dead_letter_id], body)
    if done.outcome is Outcome.GONE:
        raise not_found(f"dead letter {dead_letter_id}")
    if done.outcome not in {Outcome.REPLAYED, Outcome.ALREADY}:
        raise ApiProblem(409, Code.STATE_CONFLICT, f"It cannot be replayed: {done.outcome}.")
    return ReplayedOut.from_orm(done)


@router.post(
    "/dead_letters:replay",
    auth=needs(Scope.OPERATE),
    response=answers({200: ReplayManyOut, 202: ReplayBatchOut}, 400, 404, 413),
)
def replay_dead_letters(request: HttpRequest, body: Annotated[ReplayManyIn, Body()]) -> Status[Any]:
    """Replay dead letters by id or by filter. Try it with `dry_run` first.

    With `rate_per_minute` or `undo_seconds` it becomes a replay batch (202), which the orchestrators run.
    """
    principal = principal_of(request)
    wanted = body.filter.filter(None) if body.filter is not None else None
    limit = body.limit if body.is_batch else min(body.limit, MAX_REPLAY)
    ids = (body.ids or [])[:limit]
    letters = DeadLetter.objects.filter(OPEN, pk__in=ids) if wanted is None else matching(wanted)
    if body.dry_run:
        would_be = bounded(letters[:limit].count, TOO_WIDE_HINT)
        return Status(200, ReplayManyOut(matched=would_be, replayed=0, items=[]))
    if body.is_batch:
        try:
            return Status(202, replay_batch_out(_create_batch(principal, wanted, body)))
        except NothingToReplay as error:
            raise ApiProblem(404, Code.NOT_FOUND, sentence(error)) from None
    matched = bounded(letters.count, TOO_WIDE_HINT)
    if wanted is not None:
        ids = bounded(lambda: list(letters.values_list("id", flat=True)[:limit]), TOO_WIDE_HINT)
    done = _replay(principal, ids, body)
    replayed = sum(each.outcome is Outcome.REPLAYED for each in done)
    return Status(
        200, ReplayManyOut(matched=matched, replayed=replayed, items=[ReplayedOut.from_orm(each) for each in done])
    )


@router.delete("/dead_letters/{dead_letter_id}", auth=needs(Scope.OPERATE), response=answers({200: DiscardOut}, 404))
def discard_dead_letter(request: HttpRequest, dead_letter_id: DeadLetterId, reason: Reason = "") -> DiscardOut:
    """Close a dead letter without a replay; its task and job stay as they ended."""
    if not DeadLetter.objects.filter(pk=dead_letter_id).exists():
        raise not_found(f"dead letter {dead_letter_id}")
    principal = principal_of(request)
    with audited("dead_letter.discard", str(dead_letter_id), reason=reason, **principal.signature()) as row:
        discarded = discard([dead_letter_id], timezone.now()) == 1
        row.after = {"discarded": discarded}
    return DiscardOut(dead_letter_id=dead_letter_id, discarded=discarded)


def _of_task(task_id: UUID) -> UUID | None:
    """The newest dead letter of a task."""
    return DeadLetter.objects.filter(task_id=task_id).order_by("-created_at").values_list("id", flat=True).first()


def _create_batch(principal: Principal, wanted: Filter | None, body: ReplayManyIn) -> ReplayBatch:
    if body.parameters is not None:
        check_size(body.parameters)
    return create_replay_batch(
        body.ids or [] if wanted is None else wanted,
        reason=body.reason,
        parameters=body.parameters,
        priority=body.wanted_priority,
        rate_per_minute=body.rate_per_minute,
        undo_seconds=body.undo_seconds or 0,
        limit=body.limit,
        **principal.signature(),
    )


def _replay(principal: Principal, ids: list[UUID], body: ReplayIn) -> list[Replayed]:
    if body.parameters is not None:
        check_size(body.parameters)
    if not DeadLetter.objects.filter(pk__in=ids).exists():
        return [Replayed(letter, Outcome.GONE) for letter in ids]  # no audit row
    target = str(ids[0]) if len(ids) == 1 else f"{len(ids)} dead letters"
    before = {"ids": [str(letter) for letter in ids]}
    with audited("dead_letter.replay", target, reason=body.reason, before=before, **principal.signature()) as row:
        done = replay(
            ids,
            timezone.now(),
            parameters=body.parameters,
            priority=body.wanted_priority,
            keep_retries=not body.reset_retry_count,
        )
        row.after = {str(each.dead_letter_id): each.outcome for each in done}
    return done
