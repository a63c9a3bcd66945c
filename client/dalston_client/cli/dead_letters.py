"""`dalston dead-letters`: list, replay and discard dead letters. A command that changes something counts, then asks."""

from __future__ import annotations

import argparse
from typing import Any

from dalston_client import answers
from dalston_client.cli import options, text
from dalston_client.cli.confirm import confirmed
from dalston_client.cli.exits import Exit, UsageError
from dalston_client.cli.output import Out
from dalston_client.cli.parameters import object_of
from dalston_client.cli.several import one_by_one, told
from dalston_client.client import Client

EXAMPLES = """\
examples:
  dalston dead-letters list --groups --since 1d
  dalston dead-letters replay --fingerprint 1f2e3d4c --dry-run
  dalston dead-letters replay --queue transcribe --rate 60 --reason "model fixed" --yes
  dalston dead-letters undo BATCH
"""
_FILTERS = ("queue", "cause", "fingerprint", "task_type", "error")


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "dead-letters", run_list, "list, replay and discard dead letters", EXAMPLES)
    parser.set_defaults(groups=False, limit=20, since=None, before=None, **dict.fromkeys(_FILTERS))
    inner = parser.add_subparsers(title="commands", metavar="COMMAND")
    listing = options.command(inner, "list", run_list, "list open dead letters, newest first")
    _add_filters(listing)
    listing.add_argument("--groups", action="store_true", help="those that look alike as one line")
    options.add_limit(listing)
    show = options.command(inner, "show", run_show, "show one dead letter with its evidence")
    show.add_argument("dead_letter_id")
    _add_replay(inner)
    discard = options.command(inner, "discard", run_discard, "close dead letters without a replay")
    discard.add_argument("ids", nargs="+", metavar="id")
    discard.add_argument("--yes", action="store_true", help="do it without asking")
    options.add_reason(discard)
    batches = options.command(inner, "batches", run_batches, "list replay batches, newest first, or show one")
    batches.add_argument("replay_batch_id", nargs="?")
    options.add_limit(batches)
    undo = options.command(inner, "undo", run_undo, "undo a batch that waits, or stop the rest of one that runs")
    undo.add_argument("replay_batch_id")
    options.add_reason(undo)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queue", metavar="QUEUE", help="only of this queue")
    parser.add_argument("--cause", metavar="CAUSE", help="only of this cause: error, timeout, engine_lost, …")
    parser.add_argument("--fingerprint", metavar="HEX", help="only those that look alike")
    parser.add_argument("--type", dest="task_type", metavar="TYPE", help="only of this task type")
    parser.add_argument("--error", metavar="WORDS", help="only those whose error contains the words")
    options.add_span(parser)


def _add_replay(inner: options.Commands) -> None:
    parser = options.command(inner, "replay", run_replay, "take dead letters back: these, or all that match")
    parser.add_argument("ids", nargs="*", metavar="id", help="these; without ids, all that match the filters")
    _add_filters(parser)
    parser.add_argument("--all", action="store_true", help="all open ones, if no filter is given")
    parser.add_argument("--dry-run", action="store_true", help="only say how many it would be")
    parser.add_argument("--yes", action="store_true", help="do it without asking")
    parser.add_argument("--rate", type=options.positive, metavar="N", help="so many a minute, by the server")
    parser.add_argument(
        "--undo", type=options.duration, metavar="SECONDS", help="wait so long, so that it can be undone"
    )
    parser.add_argument("--limit", type=options.positive, metavar="N", help="at most so many, oldest first")
    parser.add_argument("--parameters", metavar="JSON", help="instead of the tasks' own: an object, @FILE or @-")
    parser.add_argument("--priority", choices=options.PRIORITIES, help="instead of their own")
    options.add_reason(parser)


def run_list(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    if given.groups:
        groups = client.dead_letter_groups(limit=min(given.limit, 200), **_filters(given))
        if out.as_json:
            out.json(groups)
        else:
            rows = [
                (
                    it["fingerprint"],
                    it["count"],
                    it["queue"],
                    it["cause"],
                    text.ago(it["last_at"]),
                    text.short(it["error"]),
                )
                for it in groups
            ]
            out.table(("fingerprint", "count", "queue", "cause", "last", "error"), rows, "no open dead letters")
        return Exit.OK
    letters = list(client.dead_letters(limit=given.limit, **_filters(given)))
    if out.as_json:
        out.json(letters)
    else:
        lines = [
            (it["dead_letter_id"], it["queue"], it["cause"], text.ago(it["created_at"]), text.short(it["error"]))
            for it in letters
        ]
        out.table(("dead letter", "queue", "cause", "since", "error"), lines, "no open dead letters")
    return Exit.OK


def run_show(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    letter = client.dead_letter(given.dead_letter_id)
    if out.as_json:
        out.json(letter)
        return Exit.OK
    for name, value in letter.items():
        if value not in (None, ""):
            out.say(f"{name:16} {value if not isinstance(value, dict | list) else text.as_json(value)}")
    return Exit.OK


def run_replay(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    wanted = _wanted(given)
    matched = client.replay_many(**wanted, dry_run=True, limit=given.limit)["matched"]
    if given.dry_run:
        _answer(
            out,
            {"matched": matched, "replayed": 0, "items": []},
            f"{text.counted(matched, 'dead letter')} would be replayed.",
        )
        return Exit.OK
    if not confirmed(out, f"{text.counted(matched, 'dead letter')} would be replayed.", yes=given.yes):
        return Exit.USAGE
    parameters = None if given.parameters is None else object_of(given.parameters, "--parameters")
    more = {"limit": given.limit, "parameters": parameters, "priority": given.priority, "reason": given.reason}
    if given.rate is None and given.undo is None:
        done = client.replay_many(**wanted, **more)
        _answer(out, done, _words(done))
        return (
            Exit.OK if all(it["outcome"] in {"replayed", "already replayed"} for it in done["items"]) else Exit.FAILED
        )
    batch = client.replay_in_batch(**wanted, **more, rate_per_minute=given.rate, undo_seconds=given.undo or 0.0)
    _answer(out, batch, _batch(batch))
    if batch["already_open"]:
        out.note(f"{batch['actor']} had asked for it before, and that batch is not over: no second one was made")
    out.note(f"to undo it, or to stop the rest: dalston dead-letters undo {batch['replay_batch_id']}")
    return Exit.OK


def run_discard(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    if not confirmed(
        out, f"{text.counted(len(given.ids), 'dead letter')} would be closed without a replay.", yes=given.yes
    ):
        return Exit.USAGE
    done, failures = one_by_one(given.ids, lambda each: client.discard(each, reason=given.reason))
    if done:
        closed = sum(it["discarded"] for it in done)
        _answer(out, done, f"{closed} discarded, {len(done) - closed} were closed before.")
    return told(out, given.ids, failures)


def run_batches(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    if given.replay_batch_id is not None:
        batch = client.replay_batch(given.replay_batch_id)
        _answer(out, batch, _batch(batch))
        return Exit.OK
    batches = list(client.replay_batches(limit=given.limit))
    if out.as_json:
        out.json(batches)
    else:
        rows = [
            (
                it["replay_batch_id"],
                it["state"],
                f"{it['handled']} of {it['matched']}",
                it["actor"],
                text.ago(it["created_at"]),
            )
            for it in batches
        ]
        out.table(("batch", "state", "handled", "by", "given"), rows, "no replay batches")
    return Exit.OK


def run_undo(given: argparse.Namespace, client: Client, out: Out) -> Exit:
    done = client.undo_replay_batch(given.replay_batch_id, reason=given.reason)
    _answer(out, done, f"{done['outcome']}: {_batch(done['replay_batch'])}")
    return Exit.OK


def _filters(given: argparse.Namespace) -> dict[str, Any]:
    return {**{name: getattr(given, name) for name in _FILTERS}, **options.span(given)}


def _wanted(given: argparse.Namespace) -> dict[str, Any]:
    filters = {name: value for name, value in _filters(given).items() if value is not None}
    if given.ids and (filters or given.all):
        raise UsageError("Name dead letters, or filters, and not both.")
    if not given.ids and not filters and not given.all:
        raise UsageError("Name dead letters, or a filter, or --all.")
    return {"ids": given.ids} if given.ids else {"filters": filters}


def _answer(out: Out, value: Any, words: str) -> None:
    if out.as_json:
        out.json(value)
    else:
        out.say(words)


def _words(done: answers.ReplayedMany) -> str:
    others: dict[str, int] = {}
    for item in done["items"]:
        if item["outcome"] != "replayed":
            others[item["outcome"]] = others.get(item["outcome"], 0) + 1
    rest = "".join(f", {count} {outcome}" for outcome, count in sorted(others.items()))
    left = done["matched"] - len(done["items"])
    return f"{done['replayed']} replayed{rest}.{f' {left} more match.' if left > 0 else ''}"


def _batch(batch: answers.ReplayBatch) -> str:
    pace = f", {batch['rate_per_minute']} a minute" if batch["rate_per_minute"] else ""
    counts = (
        f"{batch['handled']} of {batch['matched']} handled, {batch['replayed']} replayed, {batch['refused']} refused"
    )
    return f"batch {batch['replay_batch_id']} {batch['state']}{pace}: {counts}"
