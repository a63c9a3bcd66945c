"""Fragments: the named elements of a live page, tables row by row, and the pulse that says how fresh it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe


@dataclass(frozen=True, slots=True)
class Row:
    id: str
    html: str


@dataclass(frozen=True, slots=True)
class Fragment:
    """An element with an id. If it has rows, its own tag never changes: only its rows do."""

    id: str
    html: str
    rows: tuple[Row, ...] = ()


def pulse(at: datetime) -> Fragment:
    """Says how fresh the page is. It differs in every tick, so it also tells the page that the connection lives."""
    return Fragment("pulse", render("pulse", at=at, now_ms=int(at.timestamp() * 1000)))


def table(name: str, rows: list[Row] | None) -> Fragment:
    body = "".join(row.html for row in rows) if rows else render(f"{name}_empty", known=rows is not None)
    return Fragment(name, f'<tbody id="{name}">{body}</tbody>', tuple(rows or ()))


def render(partial: str, **context: Any) -> str:
    return render_to_string(f"dashboard/_{partial}.html", context).strip()


def by_name(fragments: list[Fragment]) -> dict[str, SafeString]:
    """Fragments as a template's context: each by its id."""
    # Rendered by our own partials, which escape what they show.
    return {fragment.id.replace("-", "_"): mark_safe(fragment.html) for fragment in fragments}  # noqa: S308
