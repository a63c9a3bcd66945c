"""What one run of a duty did."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    repaired: int = 0
    found: "Counter[str]" = field(default_factory=Counter)

    def note(self, kind: str, count: int = 1, *, repaired: bool = True) -> None:
        """Count what was found; `repaired` if it was put right."""
        if count:
            self.found[kind] += count
            self.repaired += count if repaired else 0
