"""The parser of everything. An expected error is one line on standard error (with --json, one object), no traceback."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from dalston_client import config
from dalston_client.cli import cancel, dead_letters, jobs, logs, nodes, options, streams, submit, tasks, top, watch
from dalston_client.cli.exits import MEANINGS, Exit, UsageError, described, exit_of
from dalston_client.cli.output import Out
from dalston_client.client import Client
from dalston_client.errors import DalstonError

DESCRIPTION = "Submit work to Dalston, follow it, and look after the queue."
EPILOG = "\n".join(
    [
        "environment:",
        "  DALSTON_URL     the address, such as https://dalston.example.com",
        "  DALSTON_TOKEN   the token; never an argument, which others could read",
        "  NO_COLOR        no colours",
        "",
        "exit codes:",
        *(f"  {exit_code.value:<4}{meaning}" for exit_code, meaning in MEANINGS.items()),
    ]
)

IDS = ("job_id", "task_id", "dead_letter_id", "replay_batch_id", "node_id", "worker_id", "engine", "stage", "ids")
NO_IDS = ("", ".", "..")
"""In the path of an address these lead somewhere else: an unset variable must not ask for a route that nobody has."""


def run() -> NoReturn:
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    given = _parsed(argv)
    out = Out(as_json=given.json)
    try:
        with _client(given, out) as client:
            return int(given.run(given, client, out))
    except UsageError as error:
        return _failed(out, Exit.USAGE, {"code": "usage", "detail": str(error)})
    except DalstonError as error:
        return _failed(out, exit_of(error), described(error))
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough (`dalston jobs | head`).
        _write_no_more()
        return Exit.OK
    except OSError as error:
        # What the network does arrives as a DalstonError: it is our output that can't be written, as on a full disk.
        _write_no_more()
        return _failed(out, Exit.USAGE, {"code": "output", "detail": f"The output can't be written: {error.strerror}."})


def _write_no_more() -> None:
    """What is still in the buffer would fail once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = _parser(as_json="--json" in argv)
    for word in argv:
        if not word.isascii() and any("\ud800" <= letter <= "\udfff" for letter in word):
            parser.error(f"not valid UTF-8: {word.encode(errors='surrogateescape')!r}")
    given, rest = parser.parse_known_args(argv)
    for name in IDS:
        said = getattr(given, name, None)
        for each in said if isinstance(said, list) else [said]:
            if each in NO_IDS:
                parser.error(f"argument {name}: {each!r} is no id and no name")
    if rest and (not hasattr(given, "pairs") or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if rest:
        given.pairs += rest  # parameters behind an option, which argparse does not put together
    return given


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
    parser.add_argument("--url", metavar="URL", help="instead of DALSTON_URL")
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="a file with the token, readable only by you")
    parser.add_argument(
        "--env-file",
        type=Path,
        metavar="FILE",
        help="a file that sets DALSTON_URL and DALSTON_TOKEN, such as var/dev.env",
    )
    parser.add_argument(
        "--patience",
        type=options.duration,
        default=10.0,
        metavar="SECONDS",
        help="how long to try again when nobody answers or the server is busy (10)",
    )
    parser.add_argument("--json", action="store_true", help="write JSON, for programs; works after the command, too")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (submit, jobs, watch, cancel, tasks, dead_letters, nodes, logs, streams, top):
        module.add(commands)
    return parser


def _client(given: argparse.Namespace, out: Out) -> Client:
    found = config.read_env_file(given.env_file) if given.env_file else {}
    token = config.read_token(given.token_file) if given.token_file else found.get(config.TOKEN)
    said: list[str] = []

    def on_retry(problem: DalstonError, _pause: float) -> None:
        if not said:  # once is enough: it goes on for seconds only
            said.append(str(problem))
            out.note(f"{problem} Trying again for up to {given.patience:g} s.")

    return Client(given.url or found.get(config.URL), token, patience=given.patience, on_retry=on_retry)


def _failed(out: Out, exit_code: Exit, error: dict[str, Any]) -> int:
    out.failed(exit_code, error)
    return exit_code


if __name__ == "__main__":
    run()
