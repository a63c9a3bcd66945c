"""Fragments of the pages of dead letters, the same for a page and its WebSocket.

Only operators get buttons, so there are two versions. The buttons belong to forms outside of the fragments, since a
form has its viewer's CSRF token.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID

from django.utils.html import format_html

from dalston_queue.dashboard.audit.render import trail_table
from dalston_queue.dashboard.dead_letters.patterns import patterns_fragment
from dalston_queue.dashboard.dead_letters.query import COUNT_LIMIT, MAX_GROUPS, DeadLetterLine, GroupLine
from dalston_queue.dashboard.dead_letters.read import DeadLettersView, nothing, read_dead_letters
from dalston_queue.dashboard.dead_letters.read_one import DeadLetterView, read_dead_letter
from dalston_queue.dashboard.job.render import events_table
from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.dashboard.parts.request import BadQuery, address
from dalston_queue.jobs.queries.dead_letters import NEW
from dalston_queue.models import ReplayBatch
from dalston_queue.models.replay_batch import LIVE
from dalston_queue.polling import Gone

BATCH_TONES = {"waiting": "wait", "running": "busy", "done": "ok", "stopped": "bad"}
MORE_GROUPS = f"The {MAX_GROUPS} groups seen last. Narrow the filter to see more."
NO_DEAD_LETTER = "No open dead letter matches."
NO_GROUP = (
    "No open dead letter. A task that has used up its retries, or a message that cannot be read, is shown here until an"
    " operator replays or discards it."
)


def dead_letters_fragments(query: Mapping[str, str], may_operate: bool) -> list[Fragment]:
    try:
        view = read_dead_letters(query)
    except BadQuery:  # the page says what is wrong; its WebSocket only keeps it alive
        view = nothing()
    return fragments_of(view, query, may_operate)


def fragments_of(view: DeadLettersView, query: Mapping[str, str], may_operate: bool) -> list[Fragment]:
    pieces = [as_of(view.at), batches_fragment(view.batches, may_operate)]
    if view.dead_letters is None:
        groups = view.groups or ()
        within = tuple(sorted((name, value) for name, value in query.items() if name != "fingerprint"))
        limit = MORE_GROUPS if len(groups) == MAX_GROUPS else ""
        rows = [_group(group, group.first_at > view.at - NEW, within, may_operate) for group in groups]
        return [
            *pieces,
            patterns_fragment(view.patterns, query, may_operate),
            table("groups", rows, columns=6, empty=NO_GROUP),
            Fragment("limits", format_html('<p id="limits" class="foot">{}</p>', limit)),
        ]
    letters = [_dead_letter(each, may_operate) for each in view.dead_letters]
    older = address(query, after=view.older) if view.older else ""
    newest = address(query, after=None) if "after" in query else ""
    return [
        *pieces,
        table("dead-letters", letters, columns=5, empty=NO_DEAD_LETTER),
        Fragment("older", render("_older", older=older, newest=newest)),
    ]


def batches_fragment(batches: tuple[ReplayBatch, ...], may_operate: bool) -> Fragment:
    rows = "".join(_batch(batch, may_operate) for batch in batches)
    return Fragment("batches", f'<ul id="batches" class="batches">{rows}</ul>')


def _batch(batch: ReplayBatch, may_operate: bool) -> str:
    tone, has_button = BATCH_TONES.get(batch.state, ""), may_operate and batch.state in LIVE
    changes = ["new parameters"] if batch.parameters is not None else []
    changes += [f"{batch.priority} priority"] if batch.priority else []
    return render("dead_letters/_batch", batch=batch, changes=", ".join(changes), tone=tone, has_button=has_button)


@lru_cache(maxsize=512)
def _group(group: GroupLine, is_new: bool, within: tuple[tuple[str, str], ...], may_operate: bool) -> Row:
    row_id = f"group-{group.fingerprint}"
    link = address(dict(within), fingerprint=group.fingerprint, after=None)
    words = {"group": group, "is_new": is_new, "link": link, "counted": COUNT_LIMIT, "may_operate": may_operate}
    return Row(row_id, render("dead_letters/_group", row_id=row_id, **words))


@lru_cache(maxsize=1024)
def _dead_letter(dead_letter: DeadLetterLine, may_operate: bool) -> Row:
    row_id = f"dead-letter-{dead_letter.id}"
    return Row(
        row_id, render("dead_letters/_dead_letter", row_id=row_id, dead_letter=dead_letter, may_operate=may_operate)
    )


def dead_letter_fragments(dead_letter_id: UUID, may_operate: bool) -> list[Fragment]:
    """Raises Gone if there is no such dead letter: dead letters are deleted after their retention."""
    view = read_dead_letter(dead_letter_id)
    if view is None:
        raise Gone(f"there is no dead letter {dead_letter_id}")
    return dead_letter_fragments_of(view, may_operate)


def dead_letter_fragments_of(view: DeadLetterView, may_operate: bool) -> list[Fragment]:
    return [
        as_of(view.at),
        Fragment("dead-letter", render("dead_letters/_head", view=view, dead_letter=view.dead_letter)),
        batches_fragment((view.batch,) if view.batch else (), may_operate),
        *([events_table(view.events)] if view.dead_letter.task_id else []),
        trail_table(view.actions),
    ]
