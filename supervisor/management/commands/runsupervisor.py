"""manage.py runsupervisor: runs this node's engines until SIGTERM. Needs Redis and nothing else."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from engines.sdk.manifest import CONFIG_EXIT, ManifestError
from supervisor import boot
from supervisor.boot import AddressInUseError, AlreadyRunningError
from supervisor.cli import add_node_arguments, make_broker, plan_reader, state_dir_of
from supervisor.config import Watch

BUSY_EXIT = 75  # EX_TEMPFAIL of sysexits.h


class Command(BaseCommand):
    help = "Runs the engines of this node. Needs Redis (REDIS_URL) and nothing else. SIGTERM drains and stops them all."
    requires_system_checks = ("dalston",)  # the rest are about the web process

    def add_arguments(self, parser: CommandParser) -> None:
        add_node_arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        read = plan_reader(options)
        try:
            plan = read()
        except ManifestError as error:
            raise CommandError(str(error), returncode=CONFIG_EXIT) from None
        chosen = boot.Options(
            state_dir=state_dir_of(options["state_dir"], plan.config.node),
            redis_url=settings.REDIS_URL,
            prefix=settings.DALSTON_REDIS_PREFIX,
            heartbeat_s=settings.DALSTON_HEARTBEAT_S,
            max_deliveries=settings.DALSTON_MAX_DELIVERIES,
            max_losses=settings.DALSTON_MAX_DELIVERIES_NODE_LOST,
            artifacts_url=settings.DALSTON_ARTIFACTS_URL,
        )
        try:
            code = boot.run(plan, chosen, make_broker(), Watch(read, plan))
        except (AlreadyRunningError, AddressInUseError) as error:
            raise CommandError(str(error), returncode=BUSY_EXIT) from None
        sys.exit(code)
