"""What an act changed, as lines that a person can read: the place, how it was, how it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

SHOWN = 60
LONGEST = 300


@dataclass(frozen=True, slots=True)
class Changed:
    place: str
    was: str | None = None  # None: it was not there, or nobody noted it
    now: str | None = None

    @property
    def same(self) -> bool:
        return self.was == self.now


def changes(before: Any, after: Any) -> tuple[Changed, ...]:
    """Line by line; what only one side has stands alone on it. The rest of a long one is summed up."""
    was, now = dict(_leaves(before)), dict(_leaves(after))
    lines = [Changed(place or "value", was.get(place), now.get(place)) for place in dict.fromkeys([*was, *now])]
    if len(lines) <= SHOWN:
        return tuple(lines)
    return (*lines[:SHOWN], Changed(f"… and {len(lines) - SHOWN} more, all in the export"))


def _leaves(value: Any, place: str = "") -> list[tuple[str, str]]:
    if value is None and not place:
        return []
    if isinstance(value, dict) and value:
        return [leaf for name, inner in value.items() for leaf in _leaves(inner, f"{place}.{name}" if place else name)]
    return [(place, _words(value))]


def _words(value: Any) -> str:
    if value is None or value in ("", [], {}):
        return "none" if value is None else "empty"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text)} characters)"
