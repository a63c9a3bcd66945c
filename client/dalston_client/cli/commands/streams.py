"""`dalston streams` and `dalston stats`: queues, pause and resume, and numbers of the installation."""

from __future__ import annotations

import argparse

from dalston_client.cli import options, text
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out
from dalston_client.client import Client
from dalston_client.errors import NotFound


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "streams", run_list, "list queues; pause and resume them")
    inner = parser.add_subparsers(title="commands", metavar="COMMAND")
    options.command(inner, "list", run_list, "list queues with their waiting and running tasks")
    for name, what in (
        ("pause", "let engines claim nothing more from a queue"),
        ("resume", "let engines claim from the queue again"),
    ):
        sub = options.command(inner, name, run_pause, what)
        sub.set_defaults(pause_or_resume=name)
        sub.add_argument("stage", metavar="queue")
        options.add_reason(sub)
        if name == "pause":
            sub.add_argument("--new", action="store_true", help="also a queue that is not used yet")
    options.command(commands, "stats", run_stats, "show waiting tasks, engines, and the throughput of the last minute")


def run_list(_: argparse.Namespace, client: Client, out: Out) -> Exit:
    found = client.streams()
    rows = [
        (it["queue"], it["waiting"], it["running"], text.seconds(it["oldest_age_seconds"]),
         it["counters"].get("completed", 0), "paused" if it["paused"] else "")
        for it in found
    ]  # fmt: skip
    out.rows(found, ("queue", "waiting", "running", "oldest", "completed", ""), rows, "there is no queue yet")
    return Exit.OK


def run_pause(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    if args.pause_or_resume == "pause":
        try:
            done = client.pause(args.stage, reason=args.reason, new=args.new)
        except NotFound as error:
            words = error.detail.replace("send `new`: true", "add --new")  # the API's advice as an option
            raise NotFound(error.status, error.code, words, trace_id=error.trace_id) from None
    else:
        done = client.resume(args.stage, reason=args.reason)
    if out.as_json:
        out.json(done)
    else:
        state = "paused; running tasks go on" if done["paused"] else "not paused"
        out.say(f"{done['queue']} is {state}{'' if done['changed'] else ', as it was'}.")
        if not done["engines_notified"]:
            out.note("Redis does not answer: engines are notified as soon as it does")
    return Exit.OK


def run_stats(_: argparse.Namespace, client: Client, out: Out) -> Exit:
    stats = client.stats()
    if out.as_json:
        out.json(stats)
        return Exit.OK
    depths = [(name, it["depth"], text.seconds(it["oldest_age_seconds"])) for name, it in stats["queues"].items()]
    out.table(("priority", "waiting", "oldest"), depths, "")
    workers, done = stats["workers"], stats["throughput"]
    out.say(
        f"engines: {workers['active']} active, {workers['draining']} draining, {workers['dead']} dead; "
        f"{workers['used_capacity']} of {workers['total_capacity']} slots in use"
    )
    out.say(f"last minute: {done['completed_last_minute']} completed, {done['failed_last_minute']} failed")
    return Exit.OK
