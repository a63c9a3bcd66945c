"""The page of dead letters as named pieces of HTML, the same for the page and the socket.

Buttons are only in what operators get, so there are two versions of it. They belong to forms outside of the pieces,
because a form carries its viewer's CSRF token.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID

from django.utils.html import format_html

from dalston_queue.dashboard.audit.render import trail_table
from dalston_queue.dashboard.dead_letters.query import COUNTED, GROUPS, GroupLine, LetterLine
from dalston_queue.dashboard.dead_letters.read import LettersView, OrderLine, nothing, read_letters
from dalston_queue.dashboard.dead_letters.read_one import LetterView, read_letter
from dalston_queue.dashboard.job.render import events_table
from dalston_queue.dashboard.live.fragments import Fragment, Row, pulse, render, table
from dalston_queue.dashboard.parts.request import BadQuery, address
from dalston_queue.models.replay_batch import LIVE
from dalston_queue.polling import Gone

ORDER_TONES = {"waiting": "wait", "running": "busy", "done": "ok", "stopped": "bad"}
NO_DEAD_LETTER = "No open dead letter matches."
NO_GROUP = (
    "No open dead letter. A task that has used up its retries, or a message that cannot be read, comes here and waits"
    " for an operator."
)


def letters_fragments(query: Mapping[str, str], may_operate: bool) -> list[Fragment]:
    try:
        view = read_letters(query)
    except BadQuery:  # the page says what is wrong with it; the socket only keeps it alive
        view = nothing()
    return fragments_of(view, query, may_operate)


def fragments_of(view: LettersView, query: Mapping[str, str], may_operate: bool) -> list[Fragment]:
    pieces = [pulse(view.at), orders_fragment(view.orders, may_operate)]
    if view.letters is None:
        groups = view.groups or ()
        within = tuple(sorted((name, value) for name, value in query.items() if name != "fingerprint"))
        limit = f"The {GROUPS} groups seen last. Narrow the filter to see others." if len(groups) == GROUPS else ""
        return [
            *pieces,
            table("groups", [_group(group, within) for group in groups], columns=5, empty=NO_GROUP),
            Fragment("limits", format_html('<p id="limits" class="foot">{}</p>', limit)),
        ]
    older = address(query, after=view.older) if view.older else ""
    newest = address(query, after=None) if "after" in query else ""
    return [
        *pieces,
        table("letters", [_letter(letter, may_operate) for letter in view.letters], columns=6, empty=NO_DEAD_LETTER),
        Fragment("older", render("_older", older=older, newest=newest)),
    ]


def orders_fragment(orders: tuple[OrderLine, ...], may_operate: bool) -> Fragment:
    rows = "".join(_order(order, may_operate) for order in orders)
    return Fragment("orders", f'<ul id="orders" class="orders">{rows}</ul>')


@lru_cache(maxsize=256)
def _order(order: OrderLine, may_operate: bool) -> str:
    tone, live = ORDER_TONES.get(order.state, ""), order.state in LIVE
    return render("dead_letters/_batch", order=order, tone=tone, live=live, may_operate=may_operate)


@lru_cache(maxsize=512)
def _group(group: GroupLine, within: tuple[tuple[str, str], ...]) -> Row:
    row_id = f"group-{group.fingerprint}"
    link = address(dict(within), fingerprint=group.fingerprint, after=None)
    return Row(row_id, render("dead_letters/_group", row_id=row_id, group=group, link=link, counted=COUNTED))


@lru_cache(maxsize=1024)
def _letter(letter: LetterLine, may_operate: bool) -> Row:
    row_id = f"letter-{letter.id}"
    return Row(row_id, render("dead_letters/_dead_letter", row_id=row_id, letter=letter, may_operate=may_operate))


def letter_fragments(letter_id: UUID, may_operate: bool) -> list[Fragment]:
    """Raises Gone if there is no such letter: it was kept for as long as letters are."""
    view = read_letter(letter_id)
    if view is None:
        raise Gone(f"there is no dead letter {letter_id}")
    return letter_fragments_of(view, may_operate)


def letter_fragments_of(view: LetterView, may_operate: bool) -> list[Fragment]:
    return [
        pulse(view.at),
        Fragment("letter", render("dead_letters/_head", letter=view)),
        orders_fragment((view.order,) if view.order else (), may_operate),
        *([events_table(view.events)] if view.task_id else []),
        trail_table(view.acts),
    ]
