"""`manage.py verify_audit`: verifies the audit chain. Exits with 0, or with 1 and the first fault.

Note the head that it prints somewhere outside of this database, and pass it later as --expect: only that shows an end
that was cut off, or a chain that a user with all rights rewrote.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from dalston_queue.audit.chain import Head, verify


def noted(text: str) -> Head:
    try:
        return Head.parse(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


class Command(BaseCommand):
    help = "Check the hash chain of the audit trail."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--expect", type=noted, metavar="HEAD", help="a head that was printed earlier and kept elsewhere"
        )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        found = verify(options["expect"])
        if found.unfinished:
            ids = ", ".join(str(action) for action in found.unfinished[:20])
            more = ", …" if len(found.unfinished) > len(found.unfinished[:20]) else ""
            self.stderr.write(f"Unfinished actions (in progress, or their process died): {ids}{more}.")
        if found.problem:
            raise CommandError(f"The audit trail is not as it was written: {found.problem}.", returncode=1)
        self.stdout.write(f"The audit trail is whole: {found.head.entries} links. Its head:\n{found.head}")
        if options["expect"] is None:
            self.stderr.write(
                "Without --expect this cannot see an end that was cut off, nor a chain that was rewritten: "
                "note the head outside of this database."
            )
