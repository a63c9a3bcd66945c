"""`dalston tasks` and `dalston why`: lists tasks, shows one with its history, and why it is not running."""

from __future__ import annotations

import argparse

from dalston_client import answers
from dalston_client.cli import options, text
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out
from dalston_client.client import Client

STATUSES = (
    "pending", "scheduled", "ready", "queued", "running", "completed", "failed", "dead_letter", "cancelled", "skipped",
)  # fmt: skip


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "tasks", run, "list tasks, newest first, or show one")
    parser.add_argument("task_id", nargs="?", help="show this one, with its history")
    parser.add_argument("--status", choices=STATUSES, help="only these")
    parser.add_argument("--stage", metavar="QUEUE", help="only of this queue")
    parser.add_argument("--type", dest="task_type", metavar="TYPE", help="only of this task type")
    parser.add_argument("--error", metavar="WORDS", help="only those whose error contains the words")
    parser.add_argument("--payload", metavar="FIELD:VALUE", help="only with this parameter, such as user.id:42")
    options.add_span(parser)
    options.add_limit(parser)
    why = options.command(commands, "why", run_why, "say why a task is not running")
    why.add_argument("task_id")


def run(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    if args.task_id is not None:
        task = client.task(args.task_id, history=True)
        if out.as_json:
            out.json(task)
        else:
            _show(out, task)
        return Exit.OK
    names = ("status", "stage", "task_type", "error", "payload")
    found = list(client.tasks(limit=args.limit, **{name: getattr(args, name) for name in names}, **options.span(args)))
    rows = [
        (it["task_id"], it["stage"], it["queue"], it["status"], it["attempt"], text.ago(it["created_at"]),
         text.short(it["error"]["message"] if it["error"] else ""))
        for it in found
    ]  # fmt: skip
    out.rows(found, ("task", "stage", "queue", "status", "attempt", "made", "error"), rows, "no such tasks")
    return Exit.OK


def run_why(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    why = client.why(args.task_id)
    out.answer(why, why["why"])
    return Exit.OK


def _show(out: Out, task: answers.Task) -> None:
    out.say(f"{task['stage']}  {task['task_id']}  of job {task['job_id']}")
    key = f", key {task['concurrency_key']}" if task["concurrency_key"] else ""
    out.say(f"{task['status']}, attempt {task['attempt']}, queue {task['queue']}, priority {task['priority']}{key}")
    if task["error"]:
        out.say(f"error: {task['error']['message']} ({task['error']['cause']})")
    history = [
        (it["at"], it["to_status"], it["attempt"], it["engine_id"], text.short(it["message"] or it["cause"]))
        for it in task["history"] or []
    ]
    out.table(("at", "status", "attempt", "engine", "what"), history, "it has no history yet")
    if task["result"] is not None:
        out.say(text.as_json(task["result"]))
