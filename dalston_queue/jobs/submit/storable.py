"""A value of a client's as the JSON that Postgres will store, or the reason why it can't be."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.submit.nul import holds_nul


def storable(value: Mapping[str, Any], what: str) -> msgspec.Raw:
    """Raises InvalidJob; `what` names the value in its sentence."""
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
