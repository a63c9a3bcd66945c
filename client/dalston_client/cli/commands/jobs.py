"""`dalston jobs`: lists jobs, or shows one with its tasks and their engines."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dalston_client import answers
from dalston_client.cli import options, text
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out
from dalston_client.client import Client

STATUSES = ("pending", "running", "cancelling", "completed", "failed", "cancelled")


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "jobs", run, "list jobs, newest first, or show one")
    parser.add_argument("job_id", nargs="?", help="show this one, with its tasks")
    parser.add_argument("--status", choices=STATUSES, help="only these")
    parser.add_argument("--name", metavar="NAME", help="only of this name")
    parser.add_argument("--type", dest="task_type", metavar="TYPE", help="only with a task of this type")
    parser.add_argument("--error", metavar="WORDS", help="only those whose error contains the words")
    parser.add_argument("--payload", metavar="FIELD:VALUE", help="only with this parameter, such as user.id:42")
    options.add_span(parser)
    options.add_limit(parser)


def run(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    if args.job_id is not None:
        job = client.job(args.job_id)
        if out.as_json:
            out.json(job)
        else:
            show_job(out, job, results=False)
        return Exit.OK
    names = ("status", "name", "task_type", "error", "payload")
    wanted = {name: getattr(args, name) for name in names}
    found = list(client.jobs(limit=args.limit, **wanted, **options.span(args)))
    rows = [
        (it["job_id"], it["name"], it["status"], text.share(it["progress"]), text.ago(it["created_at"]),
         text.short(it["error"] or ""))
        for it in found
    ]  # fmt: skip
    out.rows(found, ("job", "name", "status", "done", "made", "error"), rows, "no such jobs")
    return Exit.OK


def show_job(out: Out, job: answers.Job, *, results: bool) -> None:
    out.say(f"{job['name']}  {job['job_id']}")
    took = text.between(job["started_at"], job["completed_at"]) if job["started_at"] else "not started"
    out.say(f"{job['status']}, {text.share(job['progress'])}, {took}, priority {job['priority']}, {job['project']}")
    if job["error"]:
        out.say(f"error: {job['error']}")
    tasks = job["tasks"] or []
    out.table(("stage", "status", "done", "attempt", "engine", "took", "what"), list(_rows(tasks)), "it has no tasks")
    for task in tasks if results else ():
        if task["result"] is not None:
            out.say(f"{task['stage']}: {text.as_json(task['result'])}")
        elif task["result_left_out"]:
            out.say(f"{task['stage']}: a large result; `dalston tasks {task['task_id']}` shows it")


def _rows(tasks: list[answers.JobTask]) -> Iterator[tuple[object, ...]]:
    for task in tasks:
        deliveries = task["runs"]
        for number, delivery in enumerate(deliveries):
            last = number == len(deliveries) - 1
            yield (
                task["stage"] if number == 0 else "",
                task["status"] if last else delivery["outcome"] or "",
                text.share(task["progress"]) if last else "",
                delivery["attempt"],
                delivery["engine_id"],
                text.between(delivery["started_at"], delivery["finished_at"]),
                text.short(
                    _progress(task) if delivery["outcome"] is None else delivery["message"] or delivery["cause"]
                ),
            )
        if not deliveries:
            waits = f"after {', '.join(task['after'])}" if task["after"] and task["status"] == "pending" else ""
            yield task["stage"], task["status"], text.share(task["progress"]), task["attempt"], "", "", waits


def _progress(task: answers.JobTask) -> str:
    return task["progress_message"] if task["progress_known"] else "progress is not known: Redis does not answer"
