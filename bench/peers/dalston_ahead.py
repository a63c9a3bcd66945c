"""Dalston, taking one ahead: the same with a second task in hand for its one thread, settled along with the first."""

from bench.peers.dalston import fill, sender, work_holding

__all__ = ["fill", "sender", "work"]


def work(url: str, capacity: int, recovery_s: int | None) -> None:
    work_holding(capacity + 1, url, recovery_s)
