"""`manage.py reconcile [--dry-run]`: makes Redis agree with Postgres now, and lists what differed. The
numbers of waiting tasks by lane are counted anew if they are wrong."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from dalston_queue.jobs.order import depth
from dalston_queue.orchestrator.duties.reconciler import reconcile


class Command(BaseCommand):
    help = "Compare Postgres with Redis both ways and repair what differs."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only list what would be done")

    def handle(self, *_args: Any, **options: Any) -> None:
        report = reconcile(dry_run=options["dry_run"], say=self.stdout.write)
        report.note("wrong depths", depth.repair(dry_run=options["dry_run"]))
        found = ", ".join(f"{count} × {kind}" for kind, count in report.found.items()) or "nothing differs"
        self.stdout.write(f"{'would repair' if options['dry_run'] else 'repaired'}: {found}")
