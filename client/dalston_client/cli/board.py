"""What `dalston top` shows: taken from three answers of the API, compared with the look before, and drawn."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group
from rich.text import Text

from dalston_client import answers
from dalston_client.cli import text
from dalston_client.cli.nodes import COLUMNS, rows_of
from dalston_client.cli.output import drawn
from dalston_client.client import Client

LANES = ("queue", "tier", "needs", "waiting", "running", "oldest", "in/s", "out/s", "")


@dataclass(frozen=True, slots=True)
class Board:
    stats: answers.Stats
    streams: list[answers.Stream]
    nodes: list[answers.Node]
    at: float = field(default_factory=time.monotonic)

    def as_json(self) -> dict[str, Any]:
        return {"stats": self.stats, "streams": self.streams, "nodes": self.nodes}


def look(client: Client) -> Board:
    return Board(client.stats(), client.streams(), client.nodes())


def lane_rows(board: Board, before: Board | None) -> Iterator[tuple[object, ...]]:
    """Each queue with its pace, and below it its lanes, if there is more than one in use."""
    for stream in sorted(board.streams, key=lambda it: it["queue"]):
        came, went = _pace(stream, board, before, "appended"), _pace(stream, board, before, "completed", "failed")
        oldest, note = text.seconds(stream["oldest_age_seconds"]), "paused" if stream["paused"] else ""
        yield stream["queue"], "", "", stream["waiting"], stream["running"], oldest, came, went, note
        used = [lane for lane in stream["lanes"] if lane["length"]]
        for lane in used if len(used) > 1 or any(it["capabilities"] for it in used) else ():
            lag = "?" if lane["lag"] is None else lane["lag"]
            note = "" if lane["consistent"] else "inconsistent"
            oldest = text.seconds(lane["oldest_age_seconds"])
            yield "", lane["tier"], " ".join(lane["capabilities"]), lag, lane["pending"], oldest, "", "", note


def headline(board: Board) -> str:
    workers, done = board.stats["workers"], board.stats["throughput"]
    waiting = sum(it["depth"] for it in board.stats["queues"].values())
    return (
        f"{waiting} waiting, {workers['used_capacity']} of {workers['total_capacity']} slots in use, "
        f"{text.counted(workers['active'], 'engine')} active, {workers['draining']} draining, {workers['dead']} dead; "
        f"last minute {done['completed_last_minute']} completed, {done['failed_last_minute']} failed"
    )


def draw(board: Board, before: Board | None, problem: str) -> Group:
    engines = [row for node in board.nodes for row in rows_of(node)]
    foot = Text(text.clean(problem), style="red") if problem else Text("q quits", style="dim")
    return Group(
        Text(headline(board)), Text(), drawn(LANES, list(lane_rows(board, before))), Text(), drawn(COLUMNS, engines),
        Text(), foot,
    )  # fmt: skip


def _pace(stream: answers.Stream, board: Board, before: Board | None, *counters: str) -> str:
    earlier = next((it for it in before.streams if it["queue"] == stream["queue"]), None) if before else None
    if earlier is None or before is None or board.at <= before.at:
        return ""
    grown = sum(stream["counters"].get(name, 0) - earlier["counters"].get(name, 0) for name in counters)
    return f"{max(0, grown) / (board.at - before.at):.1f}"
