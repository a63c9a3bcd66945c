"""`dalston nodes`: who works where, and orders to a node."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dalston_client import answers
from dalston_client.cli import options, text
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out
from dalston_client.client import Client

_COMMANDS: tuple[tuple[answers.NodeCommand, str], ...] = (
    ("drain", "let a node finish what it can, hand back the rest and stop its engines"),
    ("resume", "let a drained node work again"),
    ("cordon", "let a node claim nothing more, and keep its engines up"),
    ("uncordon", "let it claim again"),
    ("restart", "restart the processes of an engine, or one slot of it"),
    ("rolling_restart", "restart the processes of an engine one after the other"),
    ("scale", "run so many processes of an engine"),
)
_LONGEST_WAIT_S = 20.0
COLUMNS = ("node", "engine", "state", "queues", "slots", "beat")


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "nodes", run_list, "list nodes and engines; drain, resume, restart, scale them")
    inner = parser.add_subparsers(title="commands", metavar="COMMAND")
    options.command(inner, "list", run_list, "list nodes and their engines")
    for name, what in _COMMANDS:
        act = options.command(inner, name.replace("_", "-"), run_command, what)
        act.set_defaults(node_command=name)
        act.add_argument("node_id")
        if name in {"restart", "rolling_restart", "scale"}:
            slot = ", or a slot such as demo.0" if name == "restart" else ""
            act.add_argument("engine", help=f"its name, such as demo{slot}")
        if name == "scale":
            act.add_argument("replicas", type=int, help="how many processes")
        act.add_argument(
            "--wait",
            type=options.duration,
            default=10.0,
            metavar="SECONDS",
            help="for the node's answer (10; at most 20)",
        )
        options.add_reason(act)
    for worker_command, run, what in (
        ("drain-worker", run_drain_worker, "give a worker over HTTP nothing more, and tell it to leave"),
        ("resume-worker", run_resume_worker, "let it work again"),
    ):
        act = options.command(inner, worker_command, run, what)
        act.add_argument("worker_id", help="as `dalston nodes --json` shows it, such as http.cpu-box.0123456789abcdef")
        options.add_reason(act)
    forget = options.command(inner, "forget", run_forget, "take a dead node off the list")
    forget.add_argument("node_id")
    options.add_reason(forget)


def run_list(_: argparse.Namespace, client: Client, out: Out) -> Exit:
    found = client.nodes()
    if out.as_json:
        out.json(found)
    else:
        out.table(COLUMNS, [row for node in found for row in rows_of(node)], "no node has been seen")
    return Exit.OK


def rows_of(node: answers.Node) -> Iterator[tuple[object, ...]]:
    yield node["node_id"], "", node["state"], "", "", text.ago(node["last_beat_at"])
    for engine in node["engines"]:
        name = engine["engine_id"].removeprefix(f"{node['node_id']}.")
        queues = " ".join(engine["queues"])
        yield "", name, engine["state"], queues, engine["capacity"], text.ago(engine["last_beat_at"])


def run_command(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    done = client.command(
        given.node_id,
        given.node_command,
        engine=getattr(given, "engine", None),
        replicas=getattr(given, "replicas", None),
        reason=given.reason,
        wait=min(given.wait, _LONGEST_WAIT_S),
    )
    if out.as_json:
        out.json(done)
    else:
        out.say(f"{done['command']} {given.node_id}: {done['state']}. {done['message']}")
    return {"done": Exit.OK, "failed": Exit.FAILED}.get(done["state"], Exit.NOT_YET)


def run_drain_worker(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    return _told(out, client.drain_worker(given.worker_id, reason=given.reason), "is told to drain")


def run_resume_worker(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    return _told(out, client.resume_worker(given.worker_id, reason=given.reason), "may work")


def _told(out: Out, done: answers.WorkerDrain, words: str) -> Exit:
    if out.as_json:
        out.json(done)
    else:
        out.say(f"{done['worker_id']} {words}{'' if done['changed'] else ', as before'}.")
    return Exit.OK


def run_forget(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    done = client.forget_node(given.node_id, reason=given.reason)
    if out.as_json:
        out.json(done)
    else:
        out.say(f"{done['node_id']} is forgotten, with {text.counted(len(done['engines']), 'engine')}.")
    return Exit.OK
