"""JSON that Postgres can store: without U+0000 and lone surrogates."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from dalston_queue.jobs.errors import InvalidJob

# An even number of backslashes before it are escaped backslashes, and then `u0000` is five ordinary characters.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def holds_nul(json_text: str) -> bool:
    """True if a string of this JSON has the character U+0000 in it."""
    return r"\u0000" in json_text and _NUL.search(json_text) is not None


def without_nul(json_text: str) -> str:
    """The same JSON with U+FFFD instead of U+0000, for texts that are only shown."""
    if r"\u0000" not in json_text:
        return json_text
    return _NUL.sub(lambda found: found.group().removesuffix(r"\u0000") + r"\ufffd", json_text)


def storable(value: Mapping[str, Any], what: str) -> msgspec.Raw:
    """The value as JSON. Raises InvalidJob, whose message calls the value `what`."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidJob(f"{what} can't be stored as JSON: {error}") from None
    if "\\ud" in text and _holds_half_a_character(value):
        raise InvalidJob(f"{what} contain half of a character (a lone surrogate), which Postgres can't store")
    if holds_nul(text):
        raise InvalidJob(f"{what} contain the character U+0000, which Postgres can't store")
    return msgspec.Raw(text)


def _holds_half_a_character(value: Mapping[str, Any]) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
