"""One short name for errors that look alike, so that a thousand dead letters read as three problems."""

import re
from hashlib import sha256

# What differs between two occurrences of one error, longest patterns first.
_VARIES = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # uuids
    r"|0x[0-9a-f]+"  # addresses
    r"|\b[0-9a-f]{12,}\b"  # digests
    r"|(?:/[\w.@+-]+){2,}"  # paths
    r"|'[^']*'|\"[^\"]*\""  # quoted values
    r"|\d+(?:\.\d+)?",  # numbers
    re.IGNORECASE,
)


def fingerprint(queue: str, cause: str, error_type: str, message: str) -> str:
    first_line = message.strip().split("\n", 1)[0][:500]
    same = "\x1f".join((queue, cause, error_type, _VARIES.sub("#", first_line)))
    return sha256(same.encode()).hexdigest()[:16]
