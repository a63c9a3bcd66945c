"""Options of several commands, and parameters: key=value is text, key:=value is JSON, @file is a file of JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dalston_client.cli.exits import Exit, UsageError
from dalston_client.cli.output import Out
from dalston_client.client import Client

Command = Callable[[argparse.Namespace, Client, Out], Exit]
Commands = Any  # argparse's own type is private
PRIORITIES = ("high", "medium", "low")


def command(commands: Commands, name: str, run: Command, what: str, more: str = "") -> argparse.ArgumentParser:
    """A command with its help; --json works before and after its name."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=more or None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="write JSON, for programs")
    return parser


def add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", default="", metavar="WORDS", help="why; kept in the audit trail")


def add_limit(parser: argparse.ArgumentParser, default: int = 20) -> None:
    parser.add_argument("--limit", type=positive, default=default, metavar="N", help=f"how many at most ({default})")


def add_span(parser: argparse.ArgumentParser) -> None:
    moment = "a time with its UTC offset, or an age such as 30m, 6h, 2d"
    parser.add_argument("--since", type=time_of, metavar="WHEN", help=f"made after this: {moment}")
    parser.add_argument("--before", type=time_of, metavar="WHEN", help="made before this")


def span(args: argparse.Namespace) -> dict[str, Any]:
    return {"created_after": args.since, "created_before": args.before}


def positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def duration(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


def time_of(text: str) -> str:
    """As the API takes it, with its offset; 6h is six hours ago."""
    return _moment(text, -1)


def time_ahead(text: str) -> str:
    """The same, but 6h is in six hours."""
    return _moment(text, 1)


def _moment(text: str, direction: int) -> str:
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    try:
        if text[:-1].isdecimal() and text[-1:] in units and len(text) < 10:
            return (datetime.now(UTC) + direction * timedelta(**{units[text[-1]]: int(text[:-1])})).isoformat()
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.astimezone()).isoformat()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 2026-01-31T12:00:00Z, or 6h") from None


def parameters_of(pairs: Iterable[str], whole: str | None) -> dict[str, Any]:
    """The object of --parameters, overridden by the pairs."""
    found = object_of(whole, "--parameters") if whole is not None else {}
    for pair in pairs:
        key, is_set, value = pair.partition("=")
        if not is_set or not key.strip(":"):
            raise UsageError(f"{pair!r} is no parameter: write key=value, or key:=JSON.")
        found[key.removesuffix(":")] = _json(value, f"the value of {key[:-1]}") if key.endswith(":") else value
    return found


def object_of(text: str, what: str) -> dict[str, Any]:
    """JSON, or the file after an @; @- is standard input."""
    if text.startswith("@"):
        return object_in(text[1:], what)
    return _object(_json(text, what), what)


def object_in(name: str, what: str) -> dict[str, Any]:
    return _object(json_in(name, what), what)


def json_in(name: str, what: str) -> Any:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{what}: {name} cannot be read: {error}.") from None
    return _json(text, f"{what} ({name})")


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON: {error}.") from None


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is not a JSON object.")
    return value
