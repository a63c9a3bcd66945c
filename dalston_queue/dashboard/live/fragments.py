"""Fragments: the named elements of a live page, and which of them changed since a viewer's last message.

Each poll gives a version number to every fragment and row that differs from the poll before. A viewer has the version
of its last message and gets everything newer. So a viewer that is slow, or that reconnects, catches up with one
message, and the server keeps only a number per viewer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render as render_page
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from dalston_queue.dashboard.security.roles import page_view
from dalston_queue.polling import Gone


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


def as_of(at: datetime) -> Fragment:
    """The time of the poll. It changes with every tick, so the page knows that the connection lives."""
    return Fragment("as-of", render("_as_of", at=at, now_ms=int(at.timestamp() * 1000)))


def table(name: str, rows: list[Row] | None, *, columns: int, empty: str, source: str = "Redis") -> Fragment:
    """Rows of None are not known: `source` does not answer."""
    text = empty if rows is not None else ""
    body = "".join(row.html for row in rows or ()) or render("_empty", columns=columns, text=text, source=source)
    return Fragment(name, f'<tbody id="{name}">{body}</tbody>', tuple(rows or ()))


def render(template: str, **context: Any) -> str:
    return render_to_string(f"dashboard/{template}.html", context).strip()


def by_name(fragments: list[Fragment]) -> dict[str, SafeString]:
    """Fragments as a template's context: each by its id."""
    # Rendered by our own partials, which escape what they show.
    return {fragment.id.replace("-", "_"): mark_safe(fragment.html) for fragment in fragments}  # noqa: S308


def live_page(fragments: Callable[..., list[Fragment]], template: str) -> Callable[..., HttpResponse]:
    """The view of a page that has only fragments; they are called with the names in the URL, as by the WebSocket."""

    @page_view
    def view(request: HttpRequest, /, **names: object) -> HttpResponse:
        try:
            shown = by_name(fragments(**names))
        except Gone as error:
            raise Http404(str(error)) from None
        return render_page(request, f"dashboard/{template}.html", shown)

    return view


_threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="dashboard")


@dataclass(slots=True)
class _Shown:
    fragment: Fragment
    changed: int
    rows: dict[str, int] = field(default_factory=dict)


class Board:
    """The latest fragments of a page, each with the version of its last change."""

    def __init__(self) -> None:
        self.version = 0
        self._shown: dict[str, _Shown] = {}

    def update(self, fragments: list[Fragment]) -> None:
        self.version += 1
        for fragment in fragments:
            self._shown[fragment.id] = self._compare(self._shown.get(fragment.id), fragment)

    def since(self, version: int) -> list[str]:
        """What is newer than `version`, each element with its id, as messages for out-of-band swaps.

        Table bodies, table rows and the rest travel apart: an HTML parser that has seen one kind drops the others."""
        bodies: list[str] = []
        rows: list[str] = []
        rest: list[str] = []
        for shown in self._shown.values():
            if shown.changed > version:
                (bodies if shown.fragment.html.startswith("<tbody") else rest).append(shown.fragment.html)
            else:
                rows += [row.html for row in shown.fragment.rows if shown.rows[row.id] > version]
        return ["".join(kind) for kind in (bodies, rows, rest) if kind]

    def _compare(self, old: _Shown | None, new: Fragment) -> _Shown:
        if old is None:
            return _Shown(new, self.version, {row.id: self.version for row in new.rows})
        before = {row.id: row.html for row in old.fragment.rows}
        rows = {row.id: old.rows[row.id] if before.get(row.id) == row.html else self.version for row in new.rows}
        # Rows that came, went or moved change the whole element; otherwise only changed rows are sent.
        if new.rows and list(before) == list(rows):
            return _Shown(new, old.changed, rows)
        return _Shown(new, old.changed if old.fragment.html == new.html else self.version, rows)


class LivePage:
    """A page as a polled source (polling.py): its fragments, rendered once per tick for all viewers."""

    tick_s = 0.8
    """A change must be on the screen within a second: this leaves 0.2 s for reading, rendering and the network."""
    threads = _threads

    def __init__(self, fragments: Callable[[], list[Fragment]]) -> None:
        self._fragments = fragments
        self._board = Board()
        self._lock = threading.Lock()

    def poll(self) -> None:
        fragments = self._fragments()
        with self._lock:
            self._board.update(fragments)

    def since(self, seen: int) -> tuple[list[str], int]:
        """The messages for a viewer that has seen this version, and the version that it has seen after them."""
        with self._lock:
            return self._board.since(seen), self._board.version
