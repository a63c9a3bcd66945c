"""What every live page is made of: named pieces of HTML, tables row by row, and the pulse that says how fresh it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.template.loader import render_to_string

from dalston_queue.dashboard.live.board import Fragment, Row


def pulse(at: datetime) -> Fragment:
    """Says how fresh the page is. It differs in every tick, so it also tells the page that the connection lives."""
    return Fragment("pulse", render("pulse", at=at, now_ms=int(at.timestamp() * 1000)))


def table(name: str, rows: list[Row] | None) -> Fragment:
    body = "".join(row.html for row in rows) if rows else render(f"{name}_empty", known=rows is not None)
    return Fragment(name, f'<tbody id="{name}">{body}</tbody>', tuple(rows or ()))


def render(partial: str, **context: Any) -> str:
    return render_to_string(f"dashboard/_{partial}.html", context).strip()
