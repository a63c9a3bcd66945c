"""Configuration: address and token from arguments, then from DALSTON_URL and DALSTON_TOKEN.

A token is never an argument of the command: every user of the machine can read those.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from dalston_client.errors import NotConfigured

URL, TOKEN = "DALSTON_URL", "DALSTON_TOKEN"


def resolve(url: str | None, token: str | None, env: Mapping[str, str] | None = None) -> tuple[str, str]:
    env = os.environ if env is None else env
    return _checked_url(url or env.get(URL, "")), _checked_token(token or env.get(TOKEN, ""))


def read_token(path: Path) -> str:
    """From a file that only its owner can read."""
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotConfigured(f"The token file {path} cannot be read: {error}.") from None
    if mode & 0o077:
        raise NotConfigured(f"Others can read the token file {path}. Run: chmod 600 {shlex.quote(str(path))}")
    if not text:
        raise NotConfigured(f"The token file {path} is empty.")
    return text


def read_env_file(path: Path) -> dict[str, str]:
    """DALSTON_URL and DALSTON_TOKEN from a file of NAME=value lines, such as the var/dev.env of `./dev up`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NotConfigured(f"The file {path} cannot be read: {error}.") from None
    found: dict[str, str] = {}
    for line in lines:
        name, is_set, value = line.strip().removeprefix("export ").partition("=")
        if is_set and name in {URL, TOKEN}:
            found[name] = " ".join(shlex.split(value))
    missing = [name for name in (URL, TOKEN) if name not in found]
    if missing:
        raise NotConfigured(f"The file {path} does not set {' and '.join(missing)}.")
    return found


def _checked_url(url: str) -> str:
    if not url:
        raise NotConfigured(f"There is no address. Set {URL}, for example to http://127.0.0.1:8000.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise NotConfigured(f"The address in {URL} cannot be read: {error}.") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise NotConfigured(f"The address must look like https://dalston.example.com; set {URL}.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise NotConfigured(f"The address in {URL} may have no user, password, query or fragment. The token: {TOKEN}.")
    return url.rstrip("/").removesuffix("/api/v1")


def _checked_token(token: str) -> str:
    token = token.strip()
    if not token:
        raise NotConfigured(f"There is no token. Set {TOKEN}; `manage.py token create` makes one.")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise NotConfigured(f"The token in {TOKEN} contains characters that no token has.")
    return token
