"""A job's DAG as a picture: stages in columns, each behind the last stage it waits for. Drawn by the server as SVG.

The layout only depends on the shape, so a stage keeps its place while its state changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

WIDTH, GAP_X = 172, 54
TALL, LOW = (36, 12), (24, 5)
"""Height of a box and the gap below it; the lower ones where a column has more than CROWDED boxes."""
CROWDED = 12
MARGIN = 6
LABEL = 22
EDGES = 2_000
"""More lines than that are a grey area, and a megabyte."""


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    after: tuple[str, ...]
    status: str
    tone: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class Place:
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Picture:
    width: int
    height: int
    box: int
    places: dict[str, Place]


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
    for name, place in depth.items():
        found[place].append(name)
    for names in found[1:]:
        rows = {name: row for column in found for row, name in enumerate(column)}
        means = {name: _mean([rows[parent] for parent in after[name] if parent in rows]) for name in names}
        names.sort(key=means.__getitem__)
    return found


def arrange(after: dict[str, tuple[str, ...]]) -> Picture:
    found = columns(after)
    most = max((len(column) for column in found), default=0)
    box, gap = LOW if most > CROWDED else TALL
    height = most * (box + gap) - gap + 2 * MARGIN
    places = {}
    for number, column in enumerate(found):
        top = (height - (len(column) * (box + gap) - gap)) // 2
        for row, name in enumerate(column):
            places[name] = Place(MARGIN + number * (WIDTH + GAP_X), top + row * (box + gap))
    return Picture(len(found) * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN, height, box, places)


def draw(stages: Sequence[Stage]) -> SafeString:
    picture = arrange({stage.name: stage.after for stage in stages})
    edges = [(parent, stage.name) for stage in stages for parent in stage.after if parent in picture.places]
    lines = format_html_join("", '<path d="{}"/>', ((_line(picture, *edge),) for edge in edges[:EDGES]))
    boxes = format_html_join("", "{}", ((_box(picture, stage),) for stage in stages))
    left_out = f" {len(edges) - EDGES} lines are left out." if len(edges) > EDGES else ""
    return format_html(
        '<svg class="dag" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="group" '
        'aria-labelledby="dag-name dag-words">'
        '<title id="dag-name">The stages of this job</title><desc id="dag-words">{words}</desc>'
        '<g class="edges" aria-hidden="true">{lines}</g>{boxes}</svg>',
        w=picture.width,
        h=picture.height,
        words=f"{len(stages)} stage{'' if len(stages) == 1 else 's'}, from left to right as they wait for each other."
        + left_out,
        lines=lines,
        boxes=boxes,
    )


def _box(picture: Picture, stage: Stage) -> SafeString:
    place, status = picture.places[stage.name], stage.status.replace("_", " ")
    waits = f", after {', '.join(stage.after)}" if stage.after else ""
    label = stage.name if len(stage.name) <= LABEL else f"{stage.name[: LABEL - 1]}…"
    return format_html(
        '<a id="dag-{name}" href="#stage-{name}" class="box {tone}{optional}"><title>{name}: {status}{waits}</title>'
        '<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/><text x="{tx}" y="{ty}">{label}</text></a>',
        name=stage.name,
        tone=stage.tone,
        optional="" if stage.required else " optional",
        status=status,
        waits=waits,
        x=place.x,
        y=place.y,
        width=WIDTH,
        height=picture.box,
        tx=place.x + 12,
        ty=place.y + picture.box // 2 + 5,
        label=label,
    )


def _line(picture: Picture, parent: str, child: str) -> str:
    start, end, half = picture.places[parent], picture.places[child], picture.box // 2
    x1, y1, x2, y2 = start.x + WIDTH, start.y + half, end.x, end.y + half
    return f"M{x1} {y1}C{x1 + GAP_X // 2} {y1} {x2 - GAP_X // 2} {y2} {x2} {y2}"


def _mean(places: list[int]) -> float:
    return sum(places) / len(places) if places else 0.0
