"""Old words that must not come back: lists each use and fails. `./dev check` runs it.

A list of words, not a linter of taste: each row has the pattern, and the word to use instead.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".lua", ".html", ".js", ".css", ".md", ".yaml", ".toml", ".sql", ".sh", ".service", ""}
EXEMPT = {
    "tests/tools/words.py",
    "tests/docs/test_words.py",
    "requirements.lock",
    "requirements-audio.lock",
    "requirements-build.lock",
    "requirements-node.lock",
    "requirements-server.lock",
    "requirements-up.lock",
    "bench/requirements.lock",
}

WORDS = {
    r"(hand|hands|handed|handing|give|gives|gave|given|giving)[ _-]?backs?": "release (by its own engine)",
    r"(take|takes|took|taken|taking)[ _-]?backs?": "reclaim (from a dead engine)",
    r"bury|buried|buries|burials?|set aside|sets aside|setting aside": "dead-letter",
    r"replay[ _-]orders?": "replay batch",
    r"foreign hands?|foreign writes?|spoil(ed|s|t)?": "WrongKeyType, or: written by another program",
    r"haste|hasty|impatien\w+|patience": "circuit breaker, timeout",
    r"happenings?": "event, message",
    r"guests?|seats?|news": "subscriber, subscription, event",
    r"undertakings?": "pending command",
    r"(in|into) line(?! with)|front of the line|place in line": "queue position, in the queue",
    r"at engines": "Running (PEL)",
    r"told": "notified, reported, written",
    r"said": "reported, report",
    r"somebody|nobody|whoever|anybody|everybody": "the noun: the engine, the client, no process",
    r"a look|looks? (at|for|after|again|everywhere)|looked (at|for)|looking (at|for)|lookers?": "read, poll, check",
    r"(in|into) (the )?place of|in its place": "instead of",
    r"places": "positions, slots, urls, fields",
    r"(an|the|each|every|this|which|operator's|of|per) act|acts (of|are|is|were)": "action",
    r"MOST_[A-Z]+|LOOKED|WALKED|ASIDE": "MAX_…, …_LIMIT, …_TIMEOUT_S",
    r"lost engines|lease left": "Deliveries, Lease",
    r"pulses?": "beat counters; the time of the poll",
}
LETTER = "[A-Za-z0-9]"
PATTERNS = [
    (re.compile(f"(?<!{LETTER})(?:{words})(?!{LETTER})", 0 if words.isupper() else re.IGNORECASE), instead)
    for words, instead in WORDS.items()
]


def old_words(text: str) -> list[tuple[int, str, str]]:
    """Line number, the word found, and the word to use."""
    return [
        (text.count("\n", 0, found.start()) + 1, found.group(), instead)
        for pattern, instead in PATTERNS
        for found in pattern.finditer(text)
    ]


def main(under: list[str]) -> int:
    files = subprocess.run(["git", "ls-files", *under], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    failures = 0
    for name in files.splitlines():
        file = ROOT / name
        if name in EXEMPT or file.suffix not in SUFFIXES or not file.is_file():
            continue
        for line, word, instead in old_words(file.read_text()):
            failures += 1
            print(f"{name}:{line}: {word!r}: say {instead}")
    if failures:
        print(f"{failures} old words; the list is in {Path(__file__).relative_to(ROOT)}", file=sys.stderr)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
