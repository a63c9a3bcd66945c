"""`dalston logs`: the last lines of an engine's log, asked of its node."""

from __future__ import annotations

import argparse

from dalston_client.cli import options
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out
from dalston_client.client import Client


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "logs", run, "show the last lines of an engine's log")
    parser.add_argument("node_id")
    parser.add_argument("engine", help="a slot such as demo.0, or an engine id, also of one that has ended")
    parser.add_argument("--lines", type=options.positive, default=50, metavar="N", help="how many (50)")
    parser.add_argument("--since", type=options.time_of, metavar="WHEN", help="only lines after this time, or age: 5m")
    parser.add_argument("--until", type=options.time_of, metavar="WHEN", help="only lines before this time")


def run(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    found = client.logs(given.node_id, given.engine, lines=given.lines, since=given.since, until=given.until)
    if out.as_json:
        out.json(found)
        return Exit.OK
    for line in found["lines"]:
        out.say(f"{line['at'] or '':32} {line['text']}")
    if not found["lines"]:
        out.note("no such lines")
    return Exit.OK
