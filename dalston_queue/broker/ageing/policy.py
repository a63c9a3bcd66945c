"""The policy of ageing: pure, takes the time."""

from __future__ import annotations

from dalston_queue.broker.protocol.types import Tier

# total wait since the first enqueued_at after which an entry of this tier counts as the next
PROMOTIONS: dict[Tier, tuple[Tier, int]] = {
    Tier.LOW: (Tier.MEDIUM, 10 * 60_000),
    Tier.MEDIUM: (Tier.HIGH, 20 * 60_000),
}


def promoted_after_ms(tier: Tier) -> int:
    """0: never."""
    return PROMOTIONS[tier][1] if tier in PROMOTIONS else 0


def is_due(tier: Tier, enqueued_at_ms: int, now_ms: int) -> bool:
    return tier in PROMOTIONS and now_ms - enqueued_at_ms >= PROMOTIONS[tier][1]
