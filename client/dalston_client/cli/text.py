"""Formats times and shares, and removes control characters: they could move a terminal's cursor."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any


def clean(text: object) -> str:
    """On one line, without control and direction characters."""
    return "".join(
        " " if character in "\n\r\t" else "\N{REPLACEMENT CHARACTER}" if _is_control(character) else character
        for character in str(text)
    )


def clean_lines(text: object) -> str:
    return "\n".join(clean(line) for line in str(text).splitlines())


_DIRECTIONS = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} or character in _DIRECTIONS


def short(text: object, limit: int = 60) -> str:
    line = clean(text)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def share(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f} %"


def seconds(value: float | None) -> str:
    """4.2 s, 3 min, 2 h, 5 d."""
    if value is None:
        return ""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if value >= 2 * length:
            return f"{value / length:.0f} {unit}"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def ago(at: str | None, now: datetime | None = None) -> str:
    moment = parsed(at)
    return "" if moment is None else f"{seconds(max(0.0, ((now or datetime.now(UTC)) - moment).total_seconds()))} ago"


def between(start: str | None, end: str | None, now: datetime | None = None) -> str:
    first, last = parsed(start), parsed(end) or now or datetime.now(UTC)
    return "" if first is None else seconds(max(0.0, (last - first).total_seconds()))


def parsed(at: str | None) -> datetime | None:
    return None if at is None else datetime.fromisoformat(at)


def as_json(value: Any) -> str:
    """For people; Out.json writes JSON for programs."""
    return clean_lines(json.dumps(value, indent=2, ensure_ascii=False))
