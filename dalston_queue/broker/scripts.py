"""Loading the Lua scripts: one file per operation, content-addressed.

A script names what it shares on a line `-- include: record, wake`; the loader puts the files of `lua/include/` there.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent / "lua"
_INCLUDE = re.compile(r"^-- include: (.+)$", re.MULTILINE)


class Script(msgspec.Struct, frozen=True):
    name: str
    source: bytes
    sha: str


@cache
def load(name: str) -> Script:
    text = (FOLDER / f"{name}.lua").read_text()
    source = _INCLUDE.sub(_included, text).encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest())


def _included(line: re.Match[str]) -> str:
    names = line.group(1).split(", ")
    return "\n".join((FOLDER / "include" / f"{name}.lua").read_text() for name in names)
