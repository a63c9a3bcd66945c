"""Log followers: sends new lines of a slot's log to subscribers, through Redis, for a while."""

from __future__ import annotations

from dataclasses import dataclass

from ..process.fleet import Fleet
from ..redis_link import Link, LogLines

SEND_EVERY_S = 0.5


@dataclass(slots=True)
class Follower:
    until: float
    position: int  # of the last line that was sent


class Followers:
    def __init__(self, fleet: Fleet, link: Link) -> None:
        self.fleet = fleet
        self.link = link
        self.followed: dict[str, Follower] = {}
        self.next_at = 0.0

    def follow(self, slot: str, until: float) -> None:
        """From the log's end on; another call prolongs it. Of a log that grows too fast lines are left out."""
        if slot in self.followed:
            self.followed[slot].until = until
        else:
            self.followed[slot] = Follower(until, self.fleet.logs.position(slot))

    def next_moment(self, now: float) -> float:
        return max(self.next_at, now + 0.01) if self.followed else now + 3600.0

    def step(self, now: float) -> None:
        if not self.followed or now < self.next_at:
            return
        self.next_at = now + SEND_EVERY_S
        for slot, follower in list(self.followed.items()):
            lines = self.fleet.logs.new(slot, follower.position)
            if lines:
                follower.position = lines[-1].position
                self.link.send(LogLines(slot, lines))
            if now >= follower.until:
                del self.followed[slot]
