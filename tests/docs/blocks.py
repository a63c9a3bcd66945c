"""The fenced code blocks of every page, for the tests that run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "client/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "operate").glob("*.md")),
]
_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def commands(self) -> list[str]:
        """The lines of a shell block, continued ones joined, comments dropped."""
        joined = self.text.replace("\\\n", " ")
        lines = (re.sub(r"(^|\s)#\s.*", "", line).strip() for line in joined.splitlines())
        return [line for line in lines if line]


def all_blocks() -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in _BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(str(page.relative_to(ROOT)), line, match[1].strip(), match[2]))
    return found


def blocks_of(page: str, language: str) -> list[str]:
    """For the test that runs a page's examples. It unpacks them all, so that it fails for a new one."""
    return [block.text for block in all_blocks() if (block.page, block.language) == (page, language)]
