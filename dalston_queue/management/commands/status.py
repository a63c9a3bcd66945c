"""manage.py status: the overview in a terminal. Exit code 0: well, 1: needs attention, 2: critical."""

from __future__ import annotations

import logging
import sys
import time
from argparse import ArgumentTypeError
from typing import Any

import msgspec
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from dalston_queue.dashboard.overview import read, terminal
from dalston_queue.dashboard.overview.health import Tone
from dalston_queue.dashboard.overview.values import Overview
from dalston_queue.health import outages

EXIT_CODES = {Tone.OK: 0, Tone.WARN: 1, Tone.BAD: 2}
CLEAR = "\x1b[H\x1b[2J"


class Command(BaseCommand):
    help = (
        "Shows the overview: alerts, queues and lanes, nodes, workers, leader, dead letters, duties. "
        "Exit code 0: well, 1: needs attention, 2: a critical alert fires, or a server is away."
    )
    requires_system_checks = ()  # it says what it finds, also where a check would refuse the start

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--watch", action="store_true", help="show it again and again, until Ctrl-C")
        parser.add_argument("--every", type=_seconds, default=2.0, metavar="SECONDS", help="interval of --watch (2)")
        parser.add_argument("--json", action="store_true", help="one JSON document, or with --watch one per line")
        parser.add_argument("--count", type=int, metavar="N", help="end --watch after so many")

    def handle(self, *_args: Any, **options: Any) -> None:
        if connection.vendor != "postgresql":
            raise CommandError("status needs the database: set DATABASE_URL. On a node use manage.py why NODE")
        for shown_below in (read, outages):  # an absent server is in what is shown
            logging.getLogger(shown_below.__name__).setLevel(logging.ERROR)
        latest = read.Latest(fresh_s=0.0)
        shown = 0
        overview = latest.get()
        try:
            while True:
                self._show(overview, options)
                shown += 1
                if not options["watch"] or shown == options["count"]:
                    break
                time.sleep(options["every"])
                overview = latest.get()
        except KeyboardInterrupt:
            pass  # the usual way to leave
        except BrokenPipeError:  # `| head`
            sys.stderr.close()
        sys.exit(EXIT_CODES[terminal.tone_of(overview)])

    def _show(self, overview: Overview, options: dict[str, Any]) -> None:
        if options["json"]:
            document = msgspec.json.encode(terminal.document(overview), enc_hook=str)
            text = (document if options["watch"] else msgspec.json.format(document, indent=2)).decode()
        else:
            text = "\n".join(terminal.lines(overview))
            if options["watch"]:
                text += f"\n\nevery {options['every']:g} s; rates after {read.MIN_WINDOW_S:g} s; Ctrl-C ends"
            if options["watch"] and self.stdout.isatty():
                text = CLEAR + text
        self.stdout.write(text)
        self.stdout.flush()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 3600")
    return seconds
