"""manage.py doctor: checks this node. Exit code 0: well, 1: degraded, 2: broken."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dalston_queue.broker.protocol.keys import default_node_name
from supervisor.cli import add_node_arguments, make_broker, plan_reader, state_dir_of
from supervisor.doctor import Grade, examine


class Command(BaseCommand):
    help = "Checks this node: Redis, clock, engines, state dir, setpriv, cgroup, GPUs. 0: well, 1: degraded, 2: broken."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        add_node_arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        node = options["node_id"] or default_node_name()
        state_dir: Path = state_dir_of(options["state_dir"], node)
        worst = Grade.OK
        for finding in examine(make_broker, plan_reader(options), state_dir):
            worst = max(worst, finding.grade)
            self.stdout.write(f"{finding.grade.name.lower():9} {finding.subject}: {finding.text}")
        sys.exit(worst)
