"""The command line: its parser and its errors, each one line on standard error (with --json one object)."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from dalston_client import config
from dalston_client.cli import options
from dalston_client.cli.commands import (
    cancel,
    dead_letters,
    jobs,
    limits,
    nodes,
    streams,
    submit,
    tasks,
    top,
    transcribe,
    watch,
)
from dalston_client.cli.exits import MEANINGS, Exit, UsageError, described, exit_of
from dalston_client.cli.output import Out
from dalston_client.client import Client
from dalston_client.errors import DalstonError

DESCRIPTION = "Submit work to Dalston, watch it, and operate the queue."
EPILOG = "\n".join(
    [
        "environment:",
        "  DALSTON_URL     the address, such as https://dalston.example.com",
        "  DALSTON_TOKEN   the token; never an argument, which other users could read",
        "  SSL_CERT_FILE   certificates to trust instead of the usual ones, for a CA of your own",
        "  NO_COLOR        no colours",
        "",
        "exit codes:",
        *(f"  {exit_code.value:<4}{meaning}" for exit_code, meaning in MEANINGS.items()),
    ]
)

IDS = (
    "job_id",
    "task_id",
    "dead_letter_id",
    "replay_batch_id",
    "node_id",
    "worker_id",
    "engine",
    "stage",
    "project",
    "ids",
)
NO_IDS = ("", ".", "..")
"""In a URL's path these lead to another route: an unset shell variable must be an error."""


def run() -> NoReturn:
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    args = _parsed(argv)
    out = Out(as_json=args.json)
    try:
        with _client(args, out) as client:
            return int(args.run(args, client, out))
    except UsageError as error:
        return _failed(out, Exit.USAGE, {"code": "usage", "detail": str(error)})
    except DalstonError as error:
        return _failed(out, exit_of(error), described(error))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has left (`dalston jobs | head`).
        _discard_output()
        return Exit.OK
    except OSError as error:
        # Network errors are DalstonErrors; this is our output, as on a full disk.
        _discard_output()
        return _failed(out, Exit.USAGE, {"code": "output", "detail": f"The output can't be written: {error.strerror}."})


def _discard_output() -> None:
    """Otherwise flushing the buffer at exit fails again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = _parser(as_json="--json" in argv)
    for word in argv:
        if not word.isascii() and any("\ud800" <= character <= "\udfff" for character in word):
            parser.error(f"not valid UTF-8: {word.encode(errors='surrogateescape')!r}")
    args, rest = parser.parse_known_args(argv)
    for name in IDS:
        value = getattr(args, name, None)
        for each in value if isinstance(value, list) else [value]:
            if each in NO_IDS:
                parser.error(f"argument {name}: {each!r} is no id and no name")
    if rest and (not hasattr(args, "pairs") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        args.pairs += rest  # parameters after an option, which argparse leaves over
    return args


class _Parser(argparse.ArgumentParser):
    as_json = False

    def error(self, message: str) -> NoReturn:
        if self.as_json:
            detail = f"{message}. See {self.prog} --help"
            self.exit(Exit.USAGE, json.dumps({"error": {"code": "usage", "detail": detail, "exit_code": 2}}) + "\n")
        super().error(message)


def _parser(*, as_json: bool) -> argparse.ArgumentParser:
    _Parser.as_json = as_json
    parser = _Parser(
        prog="dalston",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dalston {version('dalston-client')}")
    parser.add_argument("--url", metavar="URL", help="instead of DALSTON_URL")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="a file with the token, readable only by you")
    parser.add_argument(
        "--env-file",
        type=Path,
        metavar="FILE",
        help="a file that sets DALSTON_URL and DALSTON_TOKEN, such as var/dev.env",
    )
    parser.add_argument(
        "--retry-timeout",
        type=options.duration,
        default=10.0,
        metavar="SECONDS",
        help="how long to retry when the server does not answer or is busy (10)",
    )
    parser.add_argument("--json", action="store_true", help="write JSON, for programs; works after the command, too")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (transcribe, submit, jobs, watch, cancel, tasks, dead_letters, nodes, streams, limits, top):
        module.add(commands)
    return parser


def _client(args: argparse.Namespace, out: Out) -> Client:
    found = config.read_env_file(args.env_file) if args.env_file else {}
    token = config.read_token(args.token_file) if args.token_file else found.get(config.TOKEN)
    noted = False

    def on_retry(problem: DalstonError, _pause: float) -> None:
        nonlocal noted
        if not noted:
            noted = True
            out.note(f"{problem} Retrying for up to {args.retry_timeout:g} s.")

    return Client(args.url or found.get(config.URL), token, retry_timeout=args.retry_timeout, on_retry=on_retry)


def _failed(out: Out, exit_code: Exit, error: dict[str, Any]) -> int:
    out.failed(exit_code, error)
    return exit_code


if __name__ == "__main__":
    run()
