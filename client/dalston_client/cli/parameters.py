"""Parameters from the command line: key=value is text, key:=value is JSON, --parameters takes an object or @file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dalston_client.cli.exits import UsageError


def parameters_of(pairs: Iterable[str], whole: str | None) -> dict[str, Any]:
    """The object of --parameters with the pairs laid over it."""
    found = object_of(whole, "--parameters") if whole is not None else {}
    for pair in pairs:
        key, is_set, value = pair.partition("=")
        if not is_set or not key.strip(":"):
            raise UsageError(f"{pair!r} is no parameter: write key=value, or key:=JSON.")
        found[key.removesuffix(":")] = _json(value, f"the value of {key[:-1]}") if key.endswith(":") else value
    return found


def object_of(text: str, what: str) -> dict[str, Any]:
    """JSON, or the file after an @; @- is standard input."""
    if text.startswith("@"):
        return object_in(text[1:], what)
    return _object(_json(text, what), what)


def object_in(name: str, what: str) -> dict[str, Any]:
    return _object(json_in(name, what), what)


def json_in(name: str, what: str) -> Any:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{what}: {name} cannot be read: {error}.") from None
    return _json(text, f"{what} ({name})")


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON: {error}.") from None


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is not a JSON object.")
    return value
