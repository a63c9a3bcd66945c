"""The support bundle: what a stranger needs to help with this installation, and nothing that is a client's or secret.

Deny by default: a part is made of named columns, named settings and our own sentences. Free text is left out wherever
an engine, a client or an operator may have written it. Whatever still equals a secret of this process is struck out.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from dalston_site.support.parts import Part
from dalston_site.support.secrets import secrets, struck
from dalston_site.version import installed_version

MAX_PART_BYTES = 1 << 20


def write(path: Path, wanted: Mapping[str, Part]) -> list[tuple[str, int]]:
    """Writes the archive, for its owner only; never over another file. Returns its files and their sizes."""
    known = secrets()
    made: list[tuple[str, int]] = []
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, part in {"README.txt": lambda: readme(wanted), **wanted}.items():
                content = bounded(struck(_made(part), known)).encode()
                info = tarfile.TarInfo(f"dalston-support/{name}")
                info.size, info.mode, info.mtime = len(content), 0o600, int(time.time())
                archive.addfile(info, io.BytesIO(content))
                made.append((name, len(content)))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return made


def _made(part: Part) -> str:
    """A part that fails is a line in its file: the others are wanted most when something is broken."""
    try:
        return part().rstrip("\n") + "\n"
    except Exception as error:  # noqa: BLE001 - its text may quote data
        return f"could not be read: {type(error).__name__}\n"


def readme(wanted: Iterable[str]) -> str:
    return (
        f"Support bundle of Dalston {installed_version()}, made at {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC.\n\n"
        "It has numbers, states, ids and our own sentences. It has no parameters, results, messages of errors,\n"
        "reasons of operators, tokens or passwords. It does name queues, nodes, hosts and installed packages:\n"
        "read it before you send it.\n\n" + "".join(f"{name}\n" for name in wanted)
    )


def bounded(text: str) -> str:
    """The first megabyte; a log is about its end."""
    if len(text) <= MAX_PART_BYTES:
        return text
    return f"{text[:MAX_PART_BYTES]}\n… {len(text) - MAX_PART_BYTES} more characters are left out\n"
