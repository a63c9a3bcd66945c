"""`dalston cancel`: cancels jobs or tasks by id, and shows what was running."""

from __future__ import annotations

import argparse
from typing import Any

from dalston_client import answers
from dalston_client.cli import options
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out, for_each, report_failures
from dalston_client.client import Client
from dalston_client.errors import NotFound

WAITING = {"pending", "scheduled", "ready", "queued"}


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "cancel", run, "cancel jobs or tasks")
    parser.add_argument("ids", nargs="+", metavar="id", help="of a job or of a task")
    options.add_reason(parser)


def run(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    done, failures = for_each(args.ids, lambda each: _cancel(client, out, each, args.reason))
    if out.as_json and done:
        out.json(done)
    return report_failures(out, args.ids, failures)


def _cancel(client: Client, out: Out, some_id: str, reason: str) -> dict[str, Any]:
    outcome, words = _cancel_job_or_task(client, some_id, reason)
    if not out.as_json:
        out.say(f"{words}: {_became(outcome)}")
    return outcome


def _cancel_job_or_task(client: Client, some_id: str, reason: str) -> tuple[dict[str, Any], str]:
    """The job with this id, or else the task."""
    try:
        job = client.job(some_id)
    except NotFound:
        task = client.task(some_id)
        of_task = client.cancel_task(some_id, reason=reason)
        where = f" on {task['assigned_worker_id']}" if task["assigned_worker_id"] else ""
        return {"kind": "task", **of_task}, f"task {task['stage']} ({task['status']}{where})"
    of_job = client.cancel_job(some_id, reason=reason)
    return {"kind": "job", **of_job}, f"job {job['name']} ({_parts(job)})"


def _parts(job: answers.Job) -> str:
    tasks = job["tasks"] or []
    running = [f"{it['stage']} on {it['assigned_worker_id']}" for it in tasks if it["status"] == "running"]
    waiting = sum(it["status"] in WAITING for it in tasks)
    return f"{len(running)} running{': ' if running else ''}{', '.join(running)}; {waiting} waiting"


def _became(outcome: dict[str, Any]) -> str:
    if outcome["status"] == "cancelled":
        return "cancelled"
    if outcome["engine_notified"]:
        return f"{outcome['status']} until its engines have stopped it"
    return f"{outcome['status']} until that is stored, or until Redis answers and its engines are notified"
