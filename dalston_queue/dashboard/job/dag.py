"""A job's DAG as a picture: stages in columns, each behind the last stage it waits for. Drawn by the server as SVG.

The layout depends only on the shape of the DAG, so a box does not move while its stage's state changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from dalston_queue.dashboard.parts.words import count

GAP_X, GAP_Y = 54, 10
WIDE, NARROW = (172, 36, 22), (124, 26, 15)
"""Width and height of a box, and the characters that fit in it; the small ones where a column is wrapped."""
ROWS = 14
"""A column with more boxes is wrapped, so that the picture fits on a screen."""
MARGIN = 6
MAX_EDGES = 2_000
"""More lines are a grey area, and a megabyte."""


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    after: tuple[str, ...]
    status: str
    tone: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Position:
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Picture:
    width: int
    height: int
    box: tuple[int, int]
    label: int
    positions: dict[str, Position]


def columns(after: dict[str, tuple[str, ...]]) -> list[list[str]]:
    """Stages by their distance from the start, those with the same parents next to each other."""
    depth: dict[str, int] = {}
    left = dict(after)
    while left:
        free = [name for name, parents in left.items() if not any(parent in left for parent in parents)]
        for name in free or list(left):  # a cycle can't be submitted; if there is one all the same, it is drawn
            depth[name] = 1 + max((depth.get(parent, -1) for parent in after[name]), default=-1)
            del left[name]
    found: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name, column in depth.items():
        found[column].append(name)
    for names in found[1:]:
        rows = {name: row for column in found for row, name in enumerate(column)}
        means = {name: _mean([rows[parent] for parent in after[name] if parent in rows]) for name in names}
        names.sort(key=means.__getitem__)
    return found


def arrange(after: dict[str, tuple[str, ...]]) -> Picture:
    found = columns(after)
    tallest = max((len(column) for column in found), default=0)
    width, box, label = NARROW if tallest > ROWS else WIDE
    height = min(tallest, ROWS) * (box + GAP_Y) - GAP_Y + 2 * MARGIN
    positions: dict[str, Position] = {}
    x = MARGIN
    for column in found:
        parts = -(-len(column) // ROWS)
        rows = -(-len(column) // parts)
        for start in range(0, len(column), rows):
            part = column[start : start + rows]
            top = (height - (rows * (box + GAP_Y) - GAP_Y)) // 2
            positions |= {name: Position(x, top + row * (box + GAP_Y)) for row, name in enumerate(part)}
            x += width + GAP_Y
        x += GAP_X - GAP_Y
    return Picture(x - GAP_X + MARGIN, height, (width, box), label, positions)


def draw(stages: Sequence[Stage]) -> SafeString:
    picture = arrange({stage.name: stage.after for stage in stages})
    edges = [(parent, stage.name) for stage in stages for parent in stage.after if parent in picture.positions]
    lines = format_html_join("", '<path d="{}"/>', ((_line(picture, *edge),) for edge in edges[:MAX_EDGES]))
    boxes = format_html_join("", "{}", ((_box(picture, stage),) for stage in stages))
    left_out = f" {len(edges) - MAX_EDGES} lines are left out." if len(edges) > MAX_EDGES else ""
    return format_html(
        '<svg class="dag" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="group" '
        'aria-labelledby="dag-name dag-words">'
        '<title id="dag-name">The stages of this job</title><desc id="dag-words">{words}</desc>'
        '<g class="edges{dense}" aria-hidden="true">{lines}</g>{boxes}</svg>',
        w=picture.width,
        h=picture.height,
        words=f"{count(len(stages), 'stage')}, from left to right as they wait for each other." + left_out,
        # Between wrapped columns lines pass behind boxes of other stages, so they are drawn fainter.
        dense=" dense" if picture.label == NARROW[2] else "",
        lines=lines,
        boxes=boxes,
    )


def _box(picture: Picture, stage: Stage) -> SafeString:
    position, status = picture.positions[stage.name], stage.status.replace("_", " ")
    width, height = picture.box
    waits = f", after {', '.join(stage.after)}" if stage.after else ""
    label = stage.name if len(stage.name) <= picture.label else f"{stage.name[: picture.label - 1]}…"
    return format_html(
        '<a id="dag-{name}" href="#stage-{name}" class="box {tone}{optional}"><title>{name}: {status}{waits}</title>'
        '<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/><text x="{tx}" y="{ty}">{label}</text></a>',
        name=stage.name,
        tone=stage.tone,
        optional="" if stage.required else " optional",
        status=status,
        waits=waits,
        x=position.x,
        y=position.y,
        width=width,
        height=height,
        tx=position.x + 10,
        ty=position.y + height // 2 + 5,
        label=label,
    )


def _line(picture: Picture, parent: str, child: str) -> str:
    start, end = picture.positions[parent], picture.positions[child]
    width, height = picture.box
    x1, y1, x2, y2 = start.x + width, start.y + height // 2, end.x, end.y + height // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"


def _mean(rows: list[int]) -> float:
    return sum(rows) / len(rows) if rows else 0.0
