"""`dalston top`: lanes and engines, live. Without a terminal it prints one sample; with --json a line per sample."""

from __future__ import annotations

import argparse
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.text import Text

from dalston_client import answers
from dalston_client.cli import options, text
from dalston_client.cli.commands.nodes import COLUMNS, rows_of
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out, drawn
from dalston_client.client import Client
from dalston_client.errors import Unavailable, Unreachable

LANES = ("queue", "tier", "needs", "waiting", "running", "oldest", "in/s", "out/s", "")


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "top", run, "show lanes and engines, live", "q or Ctrl-C quits.")
    parser.add_argument("--every", type=options.duration, default=1.0, metavar="SECONDS", help="interval (1)")
    parser.add_argument("--count", type=options.positive, metavar="N", help="end after so many samples")


def run(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    try:
        if out.is_live:
            _live(args, client, out)
        else:
            _plain(args, client, out)
    except KeyboardInterrupt:
        pass  # the usual way to leave
    return Exit.OK


@dataclass(frozen=True, slots=True)
class Sample:
    stats: answers.Stats
    streams: list[answers.Stream]
    nodes: list[answers.Node]
    at: float = field(default_factory=time.monotonic)

    def as_json(self) -> dict[str, Any]:
        return {"stats": self.stats, "streams": self.streams, "nodes": self.nodes}


def _sample(client: Client) -> Sample:
    return Sample(client.stats(), client.streams(), client.nodes())


def _plain(args: argparse.Namespace, client: Client, out: Out) -> None:
    before: Sample | None = None
    with _keyboard() as wait_for_key:
        for number in range(args.count or 1):
            if number:
                wait_for_key(args.every)
            now = _sample(client)
            if out.as_json:
                out.json(now.as_json(), line=True)
            else:
                out.say(_headline(now))
                out.table(LANES, list(_lane_rows(now, before)), "there is no queue yet")
                out.table(COLUMNS, _engine_rows(now), "no node has been seen")
            before = now


def _live(args: argparse.Namespace, client: Client, out: Out) -> None:
    now, before, problem, count = _sample(client), None, "", 1
    with _keyboard() as wait_for_key, Live(console=out.console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_screen(now, before, problem), refresh=True)
            if count == args.count or wait_for_key(args.every) in {"q", "Q", "\x1b"}:
                return
            try:
                before, now, problem = now, _sample(client), ""
            except (Unreachable, Unavailable) as error:
                before, problem = None, f"{error} These numbers are old."
            count += 1


def _screen(sample: Sample, before: Sample | None, problem: str) -> Group:
    foot = Text(text.clean(problem), style="red") if problem else Text("q quits", style="dim")
    lanes, engines = drawn(LANES, list(_lane_rows(sample, before))), drawn(COLUMNS, _engine_rows(sample))
    return Group(Text(_headline(sample)), Text(), lanes, Text(), engines, Text(), foot)


def _headline(sample: Sample) -> str:
    workers, done = sample.stats["workers"], sample.stats["throughput"]
    waiting = sum(it["depth"] for it in sample.stats["queues"].values())
    return (
        f"{waiting} waiting, {workers['used_capacity']} of {workers['total_capacity']} slots in use, "
        f"{text.counted(workers['active'], 'engine')} active, {workers['draining']} draining, {workers['dead']} dead; "
        f"last minute {done['completed_last_minute']} completed, {done['failed_last_minute']} failed"
    )


def _engine_rows(sample: Sample) -> list[tuple[object, ...]]:
    return [row for node in sample.nodes for row in rows_of(node)]


def _lane_rows(sample: Sample, before: Sample | None) -> Iterator[tuple[object, ...]]:
    """Each queue with its rates, and below it its lanes, if more than one is in use."""
    for stream in sorted(sample.streams, key=lambda it: it["queue"]):
        came, went = _rate(stream, sample, before, _arrived), _rate(stream, sample, before, _ended)
        oldest, note = text.seconds(stream["oldest_age_seconds"]), "paused" if stream["paused"] else ""
        yield stream["queue"], "", "", stream["waiting"], stream["running"], oldest, came, went, note
        used = [lane for lane in stream["lanes"] if lane["length"] or lane["ready"]]
        for lane in used if len(used) > 1 or any(it["capabilities"] for it in used) else ():
            waiting = "?" if lane["waiting"] is None else lane["waiting"]
            note = "" if lane["consistent"] else "inconsistent"
            oldest = text.seconds(lane["oldest_age_seconds"])
            yield "", lane["tier"], " ".join(lane["capabilities"]), waiting, lane["pending"], oldest, "", "", note


def _arrived(stream: answers.Stream) -> int:
    """What has gone into Redis, and what waits in Postgres."""
    return stream["counters"].get("appended", 0) + stream["ready"]


def _ended(stream: answers.Stream) -> int:
    return stream["counters"].get("completed", 0) + stream["counters"].get("failed", 0)


def _rate(
    stream: answers.Stream, sample: Sample, before: Sample | None, number: Callable[[answers.Stream], int]
) -> str:
    earlier = next((it for it in before.streams if it["queue"] == stream["queue"]), None) if before else None
    if earlier is None or before is None or sample.at <= before.at:
        return ""
    return f"{max(0, number(stream) - number(earlier)) / (sample.at - before.at):.1f}"


@contextmanager
def _keyboard() -> Iterator[Callable[[float], str]]:
    """A function that waits so many seconds for a key and returns it, or an empty string. Without a terminal it only
    waits. The terminal is left as it was."""
    keys = [sys.stdin] if sys.stdin.isatty() else []

    def wait_for_key(seconds: float) -> str:
        return sys.stdin.read(1) if select.select(keys, [], [], seconds)[0] else ""

    if not keys:
        yield wait_for_key
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)  # keys without a return key; Ctrl-C still interrupts
        yield wait_for_key
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
