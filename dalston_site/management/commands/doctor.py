"""manage.py doctor: checks this server or this node. Exit code 0: well, 1: degraded, 2: broken."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from dalston_queue.broker.protocol.keys import default_node_name
from engines.sdk.manifest import ManifestError
from supervisor.cli import add_node_arguments, make_broker, plan_reader, state_dir_of
from supervisor.findings import Finding, Grade

OF_A_NODE = ("config", "node_id", "state_dir", "engines")


class Command(BaseCommand):
    help = (
        "Checks this installation, one line per finding. A server: settings, secrets, Postgres, migrations, Redis, "
        "clocks, artifact store, static files. A node (without DATABASE_URL, or with one of the options): Redis, "
        "clock, artifact store, engines, state dir, setpriv, cgroup, GPUs. "
        "Exit code 0: well, 1: degraded, 2: broken."
    )
    requires_system_checks = ()  # a finding each

    def add_arguments(self, parser: CommandParser) -> None:
        add_node_arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        worst = Grade.OK
        for finding in examiner(options)():
            worst = max(worst, finding.grade)
            self.stdout.write(f"{finding.grade.name.lower():9} {finding.subject}: {finding.text}")
        sys.exit(worst)


def examiner(options: dict[str, Any]) -> Callable[[], Iterator[Finding]]:
    """The checks of this server, or of this node."""
    if is_server() and not any(options[name] for name in OF_A_NODE):
        from dalston_site.support import doctor

        return lambda: doctor.examine(make_broker)
    from supervisor import doctor as node_doctor

    read_plan = plan_reader(options)
    try:
        node = read_plan().config.node
    except ManifestError:  # a finding of its own; the rest is examined all the same
        node = options["node_id"] or default_node_name()
    state_dir = state_dir_of(options["state_dir"], node)
    return lambda: node_doctor.examine(make_broker, read_plan, state_dir, settings.DALSTON_ARTIFACTS_URL)


def is_server() -> bool:
    return bool(
        settings.DALSTON_SERVER_INSTALL and settings.DATABASES["default"]["ENGINE"] != "django.db.backends.dummy"
    )
