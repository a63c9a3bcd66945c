"""Loader of the Lua scripts: one file per operation, beside the Python function that calls it, content-addressed.

A script names the code it shares on a line `-- include: record, wake`; the loader replaces the line with these files
of `broker/include/`, in this order: an include comes after those whose functions it calls.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import msgspec

BROKER = Path(__file__).parent.parent
_INCLUDE = re.compile(r"^-- include: (.+)$", re.MULTILINE)


class Script(msgspec.Struct, frozen=True):
    name: str
    source: bytes
    sha: str


@cache
def files() -> dict[str, Path]:
    return {file.stem: file for file in BROKER.glob("*/*.lua") if file.parent.name != "include"}


@cache
def load(name: str) -> Script:
    text = files()[name].read_text()
    source = _INCLUDE.sub(_included, text).encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest())


def _included(line: re.Match[str]) -> str:
    names = line.group(1).split(", ")
    return "\n".join((BROKER / "include" / f"{name}.lua").read_text() for name in names)
