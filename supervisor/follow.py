"""Log lines for whoever asks: the tail once, or every new line for a while, through Redis."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from .fleet import Fleet
from .link import Link, LogLines

EVERY = 0.5
MOST_LINES = 500  # per look; a spammer's log is followed in jumps


@dataclass(slots=True)
class Follower:
    until: float
    seen: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_LINES))


class Followers:
    def __init__(self, fleet: Fleet, link: Link) -> None:
        self.fleet = fleet
        self.link = link
        self.followed: dict[str, Follower] = {}
        self.next_at = 0.0

    def follow(self, slot: str, until: float) -> None:
        """From its last lines on; asking again prolongs it."""
        if slot in self.followed:
            self.followed[slot].until = until
            return
        self.followed[slot] = Follower(until)
        self.next_at = 0.0

    def send(self, slot: str, lines: list[str]) -> None:
        self.link.send(LogLines(slot, [line[:2000] for line in lines]))

    def step(self, now: float) -> None:
        if not self.followed or now < self.next_at:
            return
        self.next_at = now + EVERY
        for slot, follower in list(self.followed.items()):
            lines = self.fleet.logs.tail(slot, MOST_LINES)
            fresh = _new_lines(follower.seen, lines)
            if fresh:
                self.send(slot, fresh)
                follower.seen.extend(fresh)
            if now >= follower.until or slot not in self.fleet.slots:
                del self.followed[slot]


def _new_lines(seen: deque[str], lines: list[str]) -> list[str]:
    """What follows the last line that was seen. Stamps make equal lines rare; a rotation shows them all as new."""
    if not seen:
        return lines[-200:]
    last = seen[-1]
    for index in range(len(lines) - 1, -1, -1):
        if lines[index] == last:
            return lines[index + 1 :]
    return lines
