"""Which pieces of the page changed since a viewer last looked.

Each tick gives a version number to every fragment and row that differs from the tick before. A viewer remembers the
last version it was sent; what it gets next is everything newer. So a viewer that is slow, or that comes back after a
lost connection, catches up with one message, and nothing is kept per viewer but a number.
"""

from __future__ import annotations

from dataclasses import dataclass, field


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


@dataclass(slots=True)
class _Shown:
    fragment: Fragment
    changed: int
    rows: dict[str, int] = field(default_factory=dict)


class Board:
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
        # Rows that came, went or moved change the whole element; otherwise the rows speak for themselves.
        if new.rows and list(before) == list(rows):
            return _Shown(new, old.changed, rows)
        return _Shown(new, old.changed if old.fragment.html == new.html else self.version, rows)
