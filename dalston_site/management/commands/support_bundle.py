"""manage.py support_bundle: one archive for those who help, without payloads and secrets."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dalston_site.management.commands.doctor import examiner, is_server
from dalston_site.support import bundle
from dalston_site.support.parts import parts
from supervisor.cli import add_node_arguments, plan_reader, state_dir_of
from supervisor.findings import Finding


class Command(BaseCommand):
    help = (
        "Writes an archive for support: versions, settings that are no secrets, status, last events, alerts, the head "
        "of the audit chain, doctor's findings, migrations; on a node (or with --state-dir) its log lines about tasks. "
        "No parameters, results, messages or tokens. Read it before you send it."
    )
    requires_system_checks = ()  # wanted most when something is broken

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: dalston-support-TIME.tar.gz")
        add_node_arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        path: Path = options["output"] or Path(f"dalston-support-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
        of_server = {**options, "state_dir": None} if is_server() else options
        examine: Callable[[], Iterator[Finding]] = examiner(of_server)
        try:
            made = bundle.write(path, parts(examine, _state_dir(options)))
        except FileExistsError:
            raise CommandError(f"{path} exists: name another file with -o") from None
        except OSError as error:
            raise CommandError(f"{path} can't be written: {error.strerror}") from None
        for name, size in made:
            self.stdout.write(f"{size:9,} bytes  {name}")
        self.stdout.write(f"{path}: {path.stat().st_size:,} bytes, readable by you only. Read it before you send it.")


def _state_dir(options: dict[str, Any]) -> Path | None:
    """Of the node; none on a server, unless it is named."""
    if options["state_dir"] or is_server():
        return options["state_dir"]  # type: ignore[no-any-return]
    from dalston_queue.broker.protocol.keys import default_node_name
    from engines.sdk.manifest import ManifestError

    try:
        return state_dir_of(None, plan_reader(options)().config.node)
    except ManifestError:
        return state_dir_of(None, options["node_id"] or default_node_name())
