"""References to artifacts: `sha256:<64 hex digits>`, and `{"$artifact": …}` for a result that lies in the store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from .errors import BadReference

PATTERN = r"sha256:[0-9a-f]{64}"
_REFERENCE = re.compile(PATTERN)
_IN_JSON = re.compile(rf'"({PATTERN})"'.encode())
KEY = "$artifact"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored file."""

    ref: str
    size: int

    def as_result(self) -> dict[str, Any]:
        """The result of a task whose value was stored."""
        return {KEY: self.ref, "size": self.size}


def is_reference(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def digest_of(ref: object) -> str:
    """The 64 hex digits: the only part of a reference that becomes a file's name. Raises BadReference."""
    if not is_reference(ref):
        raise BadReference(f"{str(ref)[:80]!r} is no artifact: expected sha256: and 64 hex digits")
    return ref.removeprefix("sha256:")


def stored_value(result: object) -> str | None:
    """The reference of a result that lies in the store; None for any other result."""
    if isinstance(result, Mapping) and result.keys() <= {KEY, "size"} and is_reference(result.get(KEY)):
        return str(result[KEY])
    return None


def references_in(encoded: bytes) -> set[str]:
    """All references that a JSON text holds as strings. A search through bytes: nothing is decoded."""
    if b'"sha256:' not in encoded:
        return set()
    return {found.decode() for found in _IN_JSON.findall(encoded)}


def digests(refs: Iterable[str]) -> list[str]:
    return [digest_of(ref) for ref in refs]
