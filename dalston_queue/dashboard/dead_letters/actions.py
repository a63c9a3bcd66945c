"""Replay, discard and undo on the pages of dead letters. Each says what it changed and returns to the page."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from dalston_queue.accounts.roles import person
from dalston_queue.audit.record import audited
from dalston_queue.dashboard.parts.request import back_to_page, reason_of
from dalston_queue.dashboard.parts.words import count
from dalston_queue.dashboard.security.roles import operator_action
from dalston_queue.jobs.errors import InvalidJob, NothingToReplay
from dalston_queue.jobs.operator import replay_batches
from dalston_queue.jobs.operator.replay import discard as discard_dead_letters
from dalston_queue.jobs.operator.replay_batches import Withdrawal, Withdrawn, create_replay_batch
from dalston_queue.models import DeadLetter, ReplayBatch
from dalston_queue.models.dead_letter import OPEN
from dalston_queue.models.replay_batch import LIVE

MAX_SELECTED = 500
UNDO_S = 10


@operator_action
def replay(request: HttpRequest) -> HttpResponse:
    """Replays the selected dead letters after the undo window."""
    wanted = _ids(request)
    if not wanted:
        return _back(request, "Nothing was changed: no dead letter was selected.", bad=True)
    still_open = _still_open(wanted)
    if not still_open:
        return _back(request, "Nothing was changed: it was replayed or discarded before.", bad=True)
    if late := len(wanted) - len(still_open):
        messages.warning(request, f"{count(late, 'dead letter')} had been replayed or discarded before.")
    fresh, taken = _not_in_batch(still_open)
    if taken is not None:
        # Two replay batches with one dead letter would do no harm, but the second operator should know.
        _warn_already_replaying(request, taken, len(still_open) - len(fresh))
    if fresh:
        try:
            batch = create_replay_batch(fresh, **person(request), reason=reason_of(request), undo_seconds=UNDO_S)
        except (InvalidJob, NothingToReplay) as error:  # too many wait already, or deleted meanwhile
            return _back(request, f"Nothing was changed: {error}.", bad=True)
        if batch.already_open:  # created meanwhile
            _warn_already_replaying(request, batch, len(fresh))
            return _back(request, "")
        return _back(
            request,
            f"{count(batch.matched, 'dead letter')} will be replayed in {UNDO_S} s. Until then you can undo it.",
        )
    return _back(request, "")


@operator_action
def discard(request: HttpRequest) -> HttpResponse:
    wanted, reason = _ids(request), reason_of(request)
    if not wanted or not reason:
        missing = "no dead letter was selected" if not wanted else "a reason is needed to discard"
        return _back(request, f"Nothing was changed: {missing}.", bad=True)
    if not DeadLetter.objects.filter(id__in=wanted).exists():
        return _back(request, "Nothing was changed: there is no such dead letter.", bad=True)
    target = str(wanted[0]) if len(wanted) == 1 else f"{len(wanted)} dead letters"
    before = {"ids": [str(dead_letter) for dead_letter in wanted]}
    with audited("dead_letter.discard", target, **person(request), reason=reason, before=before) as row:
        discarded = discard_dead_letters(wanted, timezone.now())
        row.after = {"discarded": discarded}
    late = len(wanted) - discarded
    if not discarded:
        return _back(request, "Nothing was changed: it was replayed or discarded before.", bad=True)
    others = f" {late} had been replayed or discarded before." if late else ""
    return _back(request, f"{count(discarded, 'dead letter')} discarded.{others}")


@operator_action
def withdraw(request: HttpRequest, batch_id: UUID, verb: str) -> HttpResponse:
    action = {"undo": replay_batches.undo, "stop": replay_batches.stop}.get(verb)
    done = action(batch_id, **person(request), reason=reason_of(request)) if action else None
    if done is None or done.batch is None:
        raise Http404(f"there is no replay batch {batch_id}")
    won = done.what in (Withdrawal.UNDONE, Withdrawal.STOPPED)
    return _back(request, withdrawn_words(done, done.batch), bad=not won)


def withdrawn_words(done: Withdrawn, batch: ReplayBatch) -> str:
    match done.what:
        case Withdrawal.UNDONE:
            return f"Undone before it started: nothing was changed in {count(batch.matched, 'dead letter')}."
        case Withdrawal.STOPPED:
            return f"Stopped. {batch.replayed} of {batch.matched} had been replayed; the rest stay as they were."
        case Withdrawal.RUNNING:
            return f"Too late to undo: {batch.handled} of {batch.matched} were handled. The rest can be stopped."
        case _ if batch.ended_by:
            return f"Nothing was changed: {batch.ended_by} was faster, the replay batch is {batch.state}."
        case _:
            return f"Nothing was changed: the replay batch is {batch.state} already."


def _ids(request: HttpRequest) -> list[UUID]:
    """Texts that are no id are ignored: our form sends none."""
    found: dict[UUID, None] = {}
    for text in request.POST.getlist("id")[:MAX_SELECTED]:
        with suppress(ValueError):
            found[UUID(text)] = None
    return list(found)


def _still_open(wanted: list[UUID]) -> list[UUID]:
    known = set(DeadLetter.objects.filter(OPEN, id__in=wanted).values_list("id", flat=True))
    return [dead_letter for dead_letter in wanted if dead_letter in known]


def _not_in_batch(wanted: list[UUID]) -> tuple[list[UUID], ReplayBatch | None]:
    """Those in no live replay batch, and the newest live replay batch that names one."""
    taken: set[UUID] = set()
    newest = None
    for batch in ReplayBatch.objects.filter(state__in=LIVE, dead_letter_ids__overlap=wanted).order_by("created_at"):
        taken |= set(batch.dead_letter_ids)
        newest = batch
    return [dead_letter for dead_letter in wanted if dead_letter not in taken], newest


def _warn_already_replaying(request: HttpRequest, batch: ReplayBatch, number: int) -> None:
    who = "You were" if batch.actor == person(request)["actor"] else f"{batch.actor} was"
    messages.warning(request, f"{who} faster: {count(number, 'dead letter')} already in a replay batch.")


def _back(request: HttpRequest, text: str, *, bad: bool = False) -> HttpResponse:
    if text:
        (messages.warning if bad else messages.info)(request, text)
    dead_letters = reverse("dashboard:dead-letters")
    return back_to_page(request, below=dead_letters, otherwise=dead_letters)
