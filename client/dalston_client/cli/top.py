"""`dalston top`: lanes and engines, live. Without a terminal it shows them once; with --json a line per look."""

from __future__ import annotations

import argparse

from rich.live import Live

from dalston_client.cli import board, options
from dalston_client.cli.exits import Exit
from dalston_client.cli.keyboard import keyboard
from dalston_client.cli.nodes import COLUMNS, rows_of
from dalston_client.cli.output import Out
from dalston_client.client import Client
from dalston_client.errors import DalstonError, Unavailable, Unreachable


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "top", run, "show lanes and engines, live", "q or Ctrl-C quits.")
    parser.add_argument("--every", type=options.duration, default=1.0, metavar="SECONDS", help="between two looks (1)")
    parser.add_argument("--count", type=options.positive, metavar="N", help="end after so many looks")


def run(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    try:
        if out.is_live:
            _live(given, client, out)
        else:
            _plain(given, client, out)
    except KeyboardInterrupt:
        pass  # it is how one leaves
    return Exit.OK


def _plain(given: argparse.Namespace, client: Client, out: Out) -> None:
    before: board.Board | None = None
    with keyboard() as keys:
        for number in range(given.count or 1):
            if number:
                keys.wait(given.every)
            now = board.look(client)
            if out.as_json:
                out.json(now.as_json(), line=True)
            else:
                out.say(board.headline(now))
                out.table(board.LANES, list(board.lane_rows(now, before)), "there is no queue yet")
                engines = [row for node in now.nodes for row in rows_of(node)]
                out.table(COLUMNS, engines, "no node has been seen")
            before = now


def _live(given: argparse.Namespace, client: Client, out: Out) -> None:
    now, before, problem, looks = board.look(client), None, "", 1
    with keyboard() as keys, Live(console=out.console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(board.draw(now, before, problem), refresh=True)
            if looks == given.count or keys.wait(given.every) in {"q", "Q", "\x1b"}:
                return
            try:
                before, now, problem = now, board.look(client), ""
            except (Unreachable, Unavailable) as error:
                before, problem = None, _said(error)
            looks += 1


def _said(error: DalstonError) -> str:
    return f"{error} These numbers are old."
