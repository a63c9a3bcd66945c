"""Taking work back from engines that are gone or overdue: values returned by Broker.take_back and Broker.expire."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class TakenBack(msgspec.Struct, frozen=True, kw_only=True):
    """What one take-back did. Each task also got its event (task.recovered or task.exhausted)."""

    alive: bool = False  # the beat counter moved since it was judged: nothing was touched
    recovered: tuple[str, ...] = ()  # task ids, in line again
    exhausted: tuple[str, ...] = ()  # task ids whose delivery budget is used up
    lost: tuple[str, ...] = ()  # entry ids whose payload is gone; the reconciler rebuilds them

    @property
    def moved(self) -> int:
        return len(self.recovered) + len(self.exhausted)


class Expired(StrEnum):
    EXPIRED = "expired"  # taken from its owner, task.failed written
    RENEWED = "renewed"  # it was renewed since it was judged: left alone
    ABSENT = "absent"  # not running at this attempt any more
