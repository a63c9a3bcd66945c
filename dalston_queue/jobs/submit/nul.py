"""The one character that Postgres can't store, found in JSON text."""

import re

# An even number of backslashes before it are escaped backslashes, and then `u0000` is five ordinary characters.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def holds_nul(json_text: str) -> bool:
    """True if a string of this JSON has the character U+0000 in it."""
    return r"\u0000" in json_text and _NUL.search(json_text) is not None


def without_nul(json_text: str) -> str:
    """The same JSON with U+FFFD in its place, for texts that are only shown."""
    if r"\u0000" not in json_text:
        return json_text
    return _NUL.sub(lambda found: found.group().removesuffix(r"\u0000") + r"\ufffd", json_text)
