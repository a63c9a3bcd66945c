"""`manage.py verify_audit`: is the audit trail as it was written? Ends with 0 if so, with 1 and the first fault if not.

Note the head that it prints somewhere outside of this database, and give it back later with --expect: only that shows
an end that was cut off, or a chain that a user with all rights wrote anew.
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
            self.stderr.write(f"Begun and not finished (it goes on, or its process died in the middle): {ids}{more}.")
        if found.problem:
            raise CommandError(f"The audit trail is not as it was written: {found.problem}.", returncode=1)
        self.stdout.write(f"The audit trail is whole: {found.head.entries} links. Its head:\n{found.head}")
        if options["expect"] is None:
            self.stderr.write(
                "Without --expect this cannot see an end that was cut off, nor a chain that was written anew: "
                "note the head outside of this database."
            )
