"""Words: those of a text as a dictionary knows them, and times for those that were not aligned. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

Times = tuple[float, float]
_EDGES = re.compile(r"^[^a-z0-9']+|[^a-z0-9']+$")


def plain(word: str) -> str:
    """As a dictionary has it: lower case, without punctuation around it."""
    return _EDGES.sub("", word.lower().replace("’", "'")).strip("'") if word.strip("'’") else ""


def with_times(words: Sequence[str], times: Sequence[Times | None], start: float, end: float) -> list[dict[str, Any]]:
    """Each word with its times. Words without share the time between their neighbours by their lengths, and are marked.
    `start`, `end`: of the segment."""
    found: list[dict[str, Any]] = []
    number = 0
    while number < len(words):
        known = times[number]
        if known is not None:
            found.append(_entry(words[number], known[0], known[1], interpolated=False))
            number += 1
            continue
        last = number
        while last < len(words) and times[last] is None:
            last += 1
        after = times[last] if last < len(words) else None
        begins = found[-1]["end"] if found else min(start, after[0] if after else start)
        ends = max(begins, after[0] if after else end)
        found += _shared(words[number:last], begins, ends)
        number = last
    return found


def _shared(words: Sequence[str], start: float, end: float) -> list[dict[str, Any]]:
    total = sum(len(word) for word in words)
    found, passed = [], 0
    for word in words:
        begins = start + (end - start) * passed / total
        passed += len(word)
        found.append(_entry(word, begins, start + (end - start) * passed / total, interpolated=True))
    return found


def _entry(word: str, start: float, end: float, *, interpolated: bool) -> dict[str, Any]:
    return {
        "word": word,
        "start": round(start, 3),
        "end": round(end, 3),
        "confidence": None,
        "interpolated": interpolated,
    }
