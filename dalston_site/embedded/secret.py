"""A generated secret that lives in a file only its owner can read."""

import os
import secrets
from pathlib import Path


def secret(path: Path, size: int = 32) -> Path:
    """Make the file with a new secret of `size` bytes, unless it is there. An interrupt leaves none or a whole one."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(size))
    return path


def write_private(path: Path, content: str) -> None:
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(content)
    new.rename(path)
