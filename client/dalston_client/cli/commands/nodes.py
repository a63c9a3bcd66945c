"""`dalston nodes` and `dalston logs`: nodes and their engines, commands to a node, logs of an engine."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dalston_client import answers
from dalston_client.cli import options, text
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out
from dalston_client.client import Client

_COMMANDS: tuple[tuple[answers.NodeCommand, str], ...] = (
    ("drain", "let a node finish what it can, release the rest and stop its engines"),
    ("resume", "let a drained node work again"),
    ("cordon", "let a node claim nothing more, and keep its engines up"),
    ("uncordon", "let a cordoned node claim again"),
    ("restart", "restart the processes of an engine, or one slot of it"),
    ("rolling_restart", "restart the processes of an engine one after the other"),
    ("scale", "run so many processes of an engine"),
)
_MAX_WAIT_S = 20.0
COLUMNS = ("node", "engine", "state", "queues", "slots", "beat")


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "nodes", run_list, "list nodes and engines; drain, resume, restart, scale them")
    inner = parser.add_subparsers(title="commands", metavar="COMMAND")
    options.command(inner, "list", run_list, "list nodes and their engines")
    for name, what in _COMMANDS:
        sub = options.command(inner, name.replace("_", "-"), run_command, what)
        sub.set_defaults(node_command=name)
        sub.add_argument("node_id")
        if name in {"restart", "rolling_restart", "scale"}:
            slot = ", or a slot such as demo.0" if name == "restart" else ""
            sub.add_argument("engine", help=f"its name, such as demo{slot}")
        if name == "scale":
            sub.add_argument("replicas", type=int, help="how many processes")
        sub.add_argument(
            "--wait",
            type=options.duration,
            default=10.0,
            metavar="SECONDS",
            help="for the node's answer (10; at most 20)",
        )
        options.add_reason(sub)
    for worker_command, run, what in (
        ("drain-worker", run_drain_worker, "deliver no more tasks to a worker over HTTP, which then leaves"),
        ("resume-worker", run_resume_worker, "deliver tasks to it again"),
    ):
        sub = options.command(inner, worker_command, run, what)
        sub.add_argument("worker_id", help="as `dalston nodes --json` shows it, such as http.cpu-box.0123456789abcdef")
        options.add_reason(sub)
    forget = options.command(inner, "forget", run_forget, "take a dead node off the list")
    forget.add_argument("node_id")
    options.add_reason(forget)
    logs = options.command(commands, "logs", run_logs, "show the last lines of an engine's log")
    logs.add_argument("node_id")
    logs.add_argument("engine", help="a slot such as demo.0, or an engine id, also of one that has ended")
    logs.add_argument("--lines", type=options.positive, default=50, metavar="N", help="how many (50)")
    logs.add_argument("--since", type=options.time_of, metavar="WHEN", help="only lines after this time, or age: 5m")
    logs.add_argument("--until", type=options.time_of, metavar="WHEN", help="only lines before this time")


def run_list(_: argparse.Namespace, client: Client, out: Out) -> Exit:
    found = client.nodes()
    out.rows(found, COLUMNS, [row for node in found for row in rows_of(node)], "no node has been seen")
    return Exit.OK


def rows_of(node: answers.Node) -> Iterator[tuple[object, ...]]:
    yield node["node_id"], "", node["state"], "", "", text.ago(node["last_beat_at"])
    for engine in node["engines"]:
        name = engine["engine_id"].removeprefix(f"{node['node_id']}.")
        queues = " ".join(engine["queues"])
        yield "", name, engine["state"], queues, engine["capacity"], text.ago(engine["last_beat_at"])


def run_command(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    done = client.command(
        args.node_id,
        args.node_command,
        engine=getattr(args, "engine", None),
        replicas=getattr(args, "replicas", None),
        reason=args.reason,
        wait=min(args.wait, _MAX_WAIT_S),
    )
    out.answer(done, f"{done['command']} {args.node_id}: {done['state']}. {done['message']}")
    return {"done": Exit.OK, "failed": Exit.FAILED}.get(done["state"], Exit.NOT_YET)


def run_drain_worker(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    return _drain_changed(out, client.drain_worker(args.worker_id, reason=args.reason), "drains")


def run_resume_worker(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    return _drain_changed(out, client.resume_worker(args.worker_id, reason=args.reason), "does not drain")


def _drain_changed(out: Out, done: answers.WorkerDrain, words: str) -> Exit:
    out.answer(done, f"{done['worker_id']} {words}{'' if done['changed'] else ', as before'}.")
    return Exit.OK


def run_forget(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    done = client.forget_node(args.node_id, reason=args.reason)
    out.answer(done, f"{done['node_id']} is forgotten, with {text.counted(len(done['engines']), 'engine')}.")
    return Exit.OK


def run_logs(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    found = client.logs(args.node_id, args.engine, lines=args.lines, since=args.since, until=args.until)
    if out.as_json:
        out.json(found)
        return Exit.OK
    for line in found["lines"]:
        out.say(f"{line['at'] or '':32} {line['text']}")
    if not found["lines"]:
        out.note("no such lines")
    return Exit.OK
