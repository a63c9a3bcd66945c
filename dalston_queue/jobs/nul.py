"""The one character that Postgres can't store, found in JSON text."""

import re

# An even number of backslashes before it are escaped backslashes, and then `u0000` is five ordinary characters.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def holds_nul(json_text: str) -> bool:
    """True if a string of this JSON has the character U+0000 in it."""
    return r"\u0000" in json_text and _NUL.search(json_text) is not None
