"""The page of one dead letter as named pieces of HTML, the same for the page and the socket."""

from __future__ import annotations

from uuid import UUID

from dalston_queue.dashboard.audit.render import act_row
from dalston_queue.dashboard.dead_letters.one_read import LetterView, read_letter
from dalston_queue.dashboard.dead_letters.render import orders_fragment
from dalston_queue.dashboard.job.render import event_row
from dalston_queue.dashboard.live.fragments import Fragment, pulse, render, table
from dalston_queue.polling import Gone


def letter_fragments(letter_id: UUID, may_operate: bool) -> list[Fragment]:
    """Raises Gone if there is no such letter: it was kept for as long as letters are."""
    view = read_letter(letter_id)
    if view is None:
        raise Gone(f"there is no dead letter {letter_id}")
    return fragments_of(view, may_operate)


def fragments_of(view: LetterView, may_operate: bool) -> list[Fragment]:
    return [
        pulse(view.at),
        Fragment("letter", render("letter", letter=view)),
        orders_fragment((view.order,) if view.order else (), may_operate),
        *([table("events", [event_row(event) for event in view.events])] if view.task_id else []),
        table("trail", [act_row(act) for act in view.acts]),
    ]
