"""`dalston submit`: a task, a pipeline, or the stages in a file; with --wait or --watch until the end."""

from __future__ import annotations

import argparse
import math
import time
from contextlib import suppress
from typing import Any

from dalston_client import answers
from dalston_client.cli import options
from dalston_client.cli.commands.jobs import show_job
from dalston_client.cli.commands.watch import interrupted, watch
from dalston_client.cli.exits import Exit, UsageError, described, exit_of
from dalston_client.cli.output import Out
from dalston_client.client import Client
from dalston_client.errors import ApiError, DalstonError

EXAMPLES = """\
parameters: key=value is text, key:=value is JSON

examples:
  dalston submit echo hello=world --wait
  dalston submit sleep seconds:=5 --priority high --watch
  dalston submit --pipeline audio file=s3://bucket/talk.wav
  dalston submit --file job.json
"""
EXPLAIN_AFTER_S = 3.0
JOB_FIELDS = {
    "name",
    "pipeline",
    "stages",
    "parameters",
    "priority",
    "concurrency_key",
    "callback_url",
    "idempotency_key",
}


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "submit", run, "submit a task, a pipeline or a job of stages", EXAMPLES)
    parser.add_argument("task_type", nargs="?", help="what to do; names the queue too, unless --stage does")
    parser.add_argument("pairs", nargs="*", metavar="key=value", help="parameters")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--pipeline", metavar="NAME", help="a pipeline that the installation knows")
    what.add_argument("--file", metavar="FILE", help="a job as JSON, as POST /jobs takes it; - is standard input")
    parser.add_argument("--parameters", metavar="JSON", help="all parameters as a JSON object, or @FILE, or @-")
    parser.add_argument("--priority", choices=options.PRIORITIES, help="medium, unless the file says otherwise")
    parser.add_argument("--name", metavar="NAME", help="of a job of a pipeline")
    parser.add_argument("--key", metavar="KEY", help="an idempotency key: the same one for 24 h is the same job")
    parser.add_argument(
        "--concurrency-key", metavar="KEY", help="whose work it is, say a customer's, for shares and limits"
    )
    parser.add_argument("--callback-url", metavar="URL", help="gets a signed request when the job is over")
    task = parser.add_argument_group("of a single task")
    task.add_argument("--stage", metavar="QUEUE", help="the queue, if it is not named like the task type")
    task.add_argument("--capability", action="append", default=[], metavar="NAME", help="what its engine must have")
    task.add_argument("--timeout", type=options.positive, metavar="SECONDS", help="how long it may run")
    task.add_argument("--max-retries", type=int, metavar="N", help="how often it is tried again when it fails")
    task.add_argument(
        "--at",
        type=options.time_ahead,
        metavar="WHEN",
        help="not before this: a time with its UTC offset, or 30m, 6h, 2d: in so much time from now",
    )
    then = parser.add_mutually_exclusive_group()
    then.add_argument("--wait", action="store_true", help="wait until it is over, and show its result")
    then.add_argument("--watch", action="store_true", help="show its progress until it is over")
    parser.add_argument(
        "--give-up-after", type=options.duration, metavar="SECONDS", help="stop waiting; the job goes on (exit code 9)"
    )


def run(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    job_id, answer = _submit(args, client)
    if args.watch or args.wait:
        out.note(f"job {job_id}")
        try:
            return (watch if args.watch else _wait)(client, out, job_id, args.give_up_after)
        except DalstonError as error:  # the job is submitted all the same: the caller must not lose its id
            out.failed(exit_of(error), {**described(error), "job_id": job_id})
            return exit_of(error)
    if out.as_json:
        out.json(answer)
    else:
        out.say(job_id)
        out.note(f"submitted. Watch it: dalston watch {job_id}")
    return Exit.OK


def _submit(args: argparse.Namespace, client: Client) -> tuple[str, Any]:
    is_task = args.pipeline is None and args.file is None
    pairs = args.pairs
    if not is_task and args.task_type is not None:
        pairs = [args.task_type, *pairs]  # argparse took the first parameter for it
    parameters = options.parameters_of(pairs, args.parameters)
    if is_task:
        if args.task_type is None and args.stage is None:
            raise UsageError("Name a task type, --pipeline or --file.")
        if args.task_type is not None and "=" in args.task_type:
            raise UsageError(f"{args.task_type!r} looks like a parameter: name the task type first.")
        task = client.submit_task(
            args.task_type,
            stage=args.stage,
            parameters=parameters,
            priority=args.priority or "medium",
            required_capabilities=args.capability,
            timeout_seconds=args.timeout,
            max_retries=args.max_retries,
            scheduled_at=args.at,
            concurrency_key=args.concurrency_key,
            callback_url=args.callback_url,
            idempotency_key=args.key,
        )
        return task["job_id"], task
    job = _job(args, client, parameters)
    return job["job_id"], job


def _job(args: argparse.Namespace, client: Client, parameters: dict[str, Any]) -> answers.Job:
    if args.stage or args.capability or args.timeout or args.max_retries is not None or args.at:
        raise UsageError("--stage, --capability, --timeout, --max-retries and --at are for a single task.")
    job = options.object_in(args.file, "--file") if args.file is not None else {"pipeline": args.pipeline}
    unknown = set(job) - JOB_FIELDS
    if unknown:
        raise UsageError(f"--file: a job has no {', '.join(sorted(unknown))}.")
    return client.submit_job(
        args.name or job.get("name"),
        pipeline=job.get("pipeline"),
        stages=job.get("stages") or (),
        parameters={**(job.get("parameters") or {}), **parameters},
        priority=args.priority or job.get("priority") or "medium",
        concurrency_key=args.concurrency_key or job.get("concurrency_key"),
        callback_url=args.callback_url or job.get("callback_url"),
        idempotency_key=args.key or job.get("idempotency_key"),
    )


def _wait(client: Client, out: Out, job_id: str, give_up_after: float | None) -> Exit:
    try:
        job = _job_when_over(client, out, job_id, give_up_after)
    except KeyboardInterrupt:
        return interrupted(out, job_id)
    if out.as_json:
        out.json(job)
    else:
        show_job(out, job, results=True)
    if job["completed_at"] is None:
        out.note(f"the job goes on. Watch it: dalston watch {job_id}")
        return Exit.NOT_YET
    return Exit.OK if job["status"] == "completed" else Exit.FAILED


def _job_when_over(client: Client, out: Out, job_id: str, give_up_after: float | None) -> answers.Job:
    """The job when it is over, or as it is then. While nothing of it runs, says why: no node may ever come."""
    begun, known = time.monotonic(), ""
    while True:
        waited = time.monotonic() - begun
        left = math.inf if give_up_after is None else max(0.0, give_up_after - waited)
        job = client.wait(job_id, timeout=min(left, EXPLAIN_AFTER_S))
        if job["completed_at"] is not None or left <= EXPLAIN_AFTER_S:
            return job
        tasks = job["tasks"] or []
        waiting = [task["task_id"] for task in tasks if task["status"] in ("ready", "queued")]
        if waiting and not any(task["status"] == "running" for task in tasks):
            with suppress(ApiError):  # it runs by now, or the token may not read it
                found = client.why(waiting[0])
                if found["code"] != known:
                    out.note(f"still waiting: {found['why']}")
                known = found["code"]
