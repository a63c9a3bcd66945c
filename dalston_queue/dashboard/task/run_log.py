"""What an engine logged while it had a task, asked of its node; or why that is not known, and what is left instead."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.nodes.commands import CommandState
from dalston_queue.dashboard.nodes.logs import shown
from dalston_queue.dashboard.parts.black_box import BlackBox, black_box
from dalston_queue.dashboard.task.read import RunLine
from dalston_queue.jobs.queries.timeline import Run
from dalston_queue.models import DeadLetter
from dalston_queue.pooled import give_connection_back
from dalston_queue.redis import get_broker

LINES = 500
AROUND = timedelta(seconds=1)
"""Logged a moment before the start was recorded, or after the end, and of the run all the same."""


def read_log(line: RunLine) -> tuple[str, str]:
    """Its lines, or why there are none."""
    if not line.node:
        return "", "It ran without a supervisor: nobody keeps its log."
    since, until = line.run.started_at or line.run.finished_at, line.run.finished_at
    broker = get_broker()
    try:
        if line.node not in {node.node_id for node in broker.registry.nodes()}:
            return "", f"The node {line.node} is away, and its logs with it."
        give_connection_back()
        tail = broker.logs(line.node).tail(
            line.run.engine_id,
            lines=LINES,
            since_ms=_ms(since - AROUND) if since else None,
            until_ms=_ms(until + AROUND) if until else None,
            actor="dashboard",
        )
    except BrokerError:
        return "", "Redis does not answer, so the node cannot be asked."
    if tail.complete:
        text = "\n".join(shown(each) for each in tail.lines)
        return text, "" if text else "It wrote nothing while it ran, or its log of that time is gone."
    if tail.status is not None and tail.status.state is CommandState.FAILED:
        return "", f"{line.node} says: {tail.status.message}."
    return "", f"The node {line.node} does not answer."


def box_of(task_id: UUID, run: Run) -> BlackBox | None:
    """What the supervisor saw, kept with the dead letter of this attempt: all that is left of a lost node's engine."""
    letters = DeadLetter.objects.filter(task_id=task_id, attempt=run.attempt).order_by("-id")
    return black_box(letters.values_list("evidence", flat=True).first())


def _ms(moment: datetime) -> int:
    return max(0, int(moment.timestamp() * 1000))
