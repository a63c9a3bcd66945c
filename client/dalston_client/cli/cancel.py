"""`dalston cancel`: jobs or tasks; says what it stops."""

from __future__ import annotations

import argparse
from typing import Any

from dalston_client import answers
from dalston_client.cli import options
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out
from dalston_client.client import Client
from dalston_client.errors import NotFound

WAITS = {"pending", "scheduled", "ready", "queued"}


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "cancel", run, "cancel jobs or tasks")
    parser.add_argument("ids", nargs="+", metavar="id", help="of a job or of a task")
    options.add_reason(parser)


def run(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    done = []
    for each in given.ids:
        outcome, words = _cancel(client, each, given.reason)
        done.append(outcome)
        if not out.as_json:
            out.say(f"{words}: {_became(outcome)}")
    if out.as_json:
        out.json(done)
    return Exit.OK


def _cancel(client: Client, some_id: str, reason: str) -> tuple[dict[str, Any], str]:
    """A job of that id, or else a task."""
    try:
        job = client.job(some_id)
    except NotFound:
        task = client.task(some_id)
        outcome = client.cancel_task(some_id, reason=reason)
        where = f" on {task['assigned_worker_id']}" if task["assigned_worker_id"] else ""
        return {"kind": "task", **outcome}, f"task {task['stage']} ({task['status']}{where})"
    outcome = client.cancel_job(some_id, reason=reason)
    return {"kind": "job", **outcome}, f"job {job['name']} ({_parts(job)})"


def _parts(job: answers.Job) -> str:
    tasks = job["tasks"] or []
    running = [f"{it['stage']} on {it['assigned_worker_id']}" for it in tasks if it["status"] == "running"]
    waiting = sum(it["status"] in WAITS for it in tasks)
    return f"{len(running)} running{': ' if running else ''}{', '.join(running)}; {waiting} waiting"


def _became(outcome: dict[str, Any]) -> str:
    if outcome["status"] == "cancelled":
        return "cancelled"
    told = "its engines were told to stop" if outcome["engine_told"] else "its engines are told when Redis answers"
    return f"{outcome['status']} until they have stopped; {told}"
