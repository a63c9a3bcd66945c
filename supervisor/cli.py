"""Command-line arguments of runsupervisor and doctor, and the node plan, state folder and broker they lead to."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings

from dalston_queue.broker import Broker, connect

from .config import NodePlan, read_plan


def add_node_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, help="node.yaml; without it each builtin engine runs once")
    parser.add_argument("--node-id", default="", help="this node's name (default: node.yaml's, else the host's)")
    parser.add_argument("--state-dir", type=Path, help="for the lock, the logs and the state file")
    parser.add_argument("--http", default="", metavar="ADDRESS:PORT", help="serve /metrics, /healthz and /readyz there")
    parser.add_argument("--engines", action="append", default=[], metavar="DIR", help="folder of engines")


def plan_reader(options: dict[str, Any]) -> Callable[[], NodePlan]:
    """A function that reads the plan of these arguments; the supervisor calls it after each change."""
    folders = options["engines"] or ([] if options["config"] else ["builtin"])
    return lambda: read_plan(options["config"], engines=tuple(folders), node=options["node_id"], http=options["http"])


def state_dir_of(chosen: Path | None, node: str) -> Path:
    if chosen is not None:
        return chosen
    base = Path("/var/lib/dalston") if os.geteuid() == 0 else Path.home() / ".local" / "state" / "dalston"
    return base / node


def make_broker() -> Broker:
    return connect(
        settings.REDIS_URL,
        prefix=settings.DALSTON_REDIS_PREFIX,
        cluster=settings.DALSTON_REDIS_CLUSTER,
        shards=settings.DALSTON_REDIS_URLS,
    )
