"""manage.py runsupervisor: runs this node's engines until SIGTERM. Needs Redis and nothing else."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dalston_queue.broker import connect
from engines.sdk.manifest import ManifestError
from supervisor import boot
from supervisor.config import NodePlan, read_plan
from supervisor.lock import AlreadyRunningError
from supervisor.reload import Watch

FOR_ENGINES = ("DALSTON_HEARTBEAT_S", "DALSTON_BREAKER_FAILURES", "DALSTON_BREAKER_OPEN_S", "DALSTON_MAX_RESULT_BYTES")


def default_state_dir(node: str) -> Path:
    base = Path("/var/lib/dalston") if os.geteuid() == 0 else Path.home() / ".local" / "state" / "dalston"
    return base / node


class Command(BaseCommand):
    help = "Runs the engines of this node. Needs Redis (REDIS_URL) and nothing else. SIGTERM drains and stops them all."
    requires_system_checks = ()  # most are about the web process

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--config", type=Path, help="node.yaml; without it every engine under engines/ runs once")
        parser.add_argument("--node-id", default="", help="this node's name (default: node.yaml's, else the host's)")
        parser.add_argument("--state-dir", type=Path, help="for the lock, the logs and the state file")
        parser.add_argument("--engines", action="append", default=[], metavar="DIR", help="folder of engines")

    def handle(self, *_args: Any, **options: Any) -> None:
        folders = options["engines"] or ([] if options["config"] else [str(settings.BASE_DIR / "engines")])

        def read() -> NodePlan:
            return read_plan(options["config"], engines=tuple(folders), node=options["node_id"])

        try:
            plan = read()
        except ManifestError as error:
            raise CommandError(str(error), returncode=78) from None
        chosen = boot.Options(
            state_dir=options["state_dir"] or default_state_dir(plan.config.node),
            redis_url=settings.REDIS_URL,
            prefix=settings.DALSTON_REDIS_PREFIX,
            heartbeat_s=settings.DALSTON_HEARTBEAT_S,
            max_deliveries=settings.DALSTON_MAX_DELIVERIES,
            max_losses=settings.DALSTON_MAX_DELIVERIES_NODE_LOST,
            engine_settings={name: str(getattr(settings, name)) for name in FOR_ENGINES},
        )
        broker = connect(
            settings.REDIS_URL, prefix=settings.DALSTON_REDIS_PREFIX, cluster=settings.DALSTON_REDIS_CLUSTER
        )
        try:
            code = boot.run(plan, chosen, broker, Watch(read, plan.places))
        except AlreadyRunningError as error:
            raise CommandError(str(error), returncode=75) from None
        sys.exit(code)
