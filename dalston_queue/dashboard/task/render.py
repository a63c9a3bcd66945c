"""Fragments of a task's page, the same for the page and its WebSocket.

The fragment of deliveries loads their logs when it is inserted, so it changes only when a delivery begins or ends.
"""

from __future__ import annotations

from uuid import UUID

from dalston_queue.dashboard.live.fragments import Fragment, as_of, render
from dalston_queue.dashboard.parts.words import TASK_TONES
from dalston_queue.dashboard.task.read import TaskView, read_task
from dalston_queue.polling import Gone


def task_fragments(task_id: UUID, may_operate: bool) -> list[Fragment]:
    """Raises Gone if there is no such task: it was removed with the old history."""
    view = read_task(task_id)
    if view is None:
        raise Gone(f"there is no task {task_id}")
    return fragments_of(view, may_operate)


def fragments_of(view: TaskView, may_operate: bool) -> list[Fragment]:
    status, tone = view.task.status.replace("_", " "), TASK_TONES.get(view.task.status, "")
    has_actions = may_operate and view.target is not None and view.target.is_live
    head = render("task/_head", view=view, task=view.task, status=status, tone=tone, has_actions=has_actions)
    return [
        as_of(view.at),
        Fragment("task", head),
        Fragment("target", render("task/_target", target=view.target)),
        Fragment("deliveries", render("task/_deliveries", task=view.task, deliveries=view.deliveries[::-1])),
        Fragment("contents", render("task/_contents", contents=view.contents)),
    ]
