"""`dalston dead-letters`: list, replay and discard dead letters. Changes are counted first and confirmed."""

from __future__ import annotations

import argparse
from typing import Any

from dalston_client import answers
from dalston_client.cli import options, text
from dalston_client.cli.exits import Exit, UsageError
from dalston_client.cli.output import Out, for_each, report_failures
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
    listing.add_argument("--groups", action="store_true", help="one line per fingerprint")
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
    parser.add_argument("--fingerprint", metavar="HEX", help="only with this fingerprint")
    parser.add_argument("--type", dest="task_type", metavar="TYPE", help="only of this task type")
    parser.add_argument("--error", metavar="WORDS", help="only those whose error contains the words")
    options.add_span(parser)


def _add_replay(inner: options.Commands) -> None:
    parser = options.command(inner, "replay", run_replay, "replay dead letters, by id or by filter")
    parser.add_argument("ids", nargs="*", metavar="id", help="without ids: all that match the filters")
    _add_filters(parser)
    parser.add_argument("--all", action="store_true", help="all open ones, without a filter")
    parser.add_argument("--dry-run", action="store_true", help="only count them")
    parser.add_argument("--yes", action="store_true", help="do it without asking")
    parser.add_argument("--rate", type=options.positive, metavar="N", help="so many a minute, as a replay batch")
    parser.add_argument(
        "--undo",
        type=options.duration,
        metavar="SECONDS",
        help="as a replay batch that can be undone so long",
    )
    parser.add_argument("--limit", type=options.positive, metavar="N", help="how many at most, oldest first")
    parser.add_argument("--parameters", metavar="JSON", help="instead of the tasks' own: an object, @FILE or @-")
    parser.add_argument("--priority", choices=options.PRIORITIES, help="instead of their own")
    options.add_reason(parser)


def run_list(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    if args.groups:
        groups = client.dead_letter_groups(limit=min(args.limit, 200), **_filters(args))
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
        out.rows(groups, ("fingerprint", "count", "queue", "cause", "last", "error"), rows, "no open dead letters")
        return Exit.OK
    letters = list(client.dead_letters(limit=args.limit, **_filters(args)))
    lines = [
        (it["dead_letter_id"], it["queue"], it["cause"], text.ago(it["created_at"]), text.short(it["error"]))
        for it in letters
    ]
    out.rows(letters, ("dead letter", "queue", "cause", "since", "error"), lines, "no open dead letters")
    return Exit.OK


def run_show(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    letter = client.dead_letter(args.dead_letter_id)
    if out.as_json:
        out.json(letter)
        return Exit.OK
    for name, value in letter.items():
        if value not in (None, ""):
            out.say(f"{name:16} {value if not isinstance(value, dict | list) else text.as_json(value)}")
    return Exit.OK


def run_replay(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    wanted = _selection(args)
    matched = client.replay_many(**wanted, dry_run=True, limit=args.limit)["matched"]
    if args.dry_run:
        out.answer(
            {"matched": matched, "replayed": 0, "items": []},
            f"{text.counted(matched, 'dead letter')} would be replayed.",
        )
        return Exit.OK
    if not out.confirm(f"{text.counted(matched, 'dead letter')} would be replayed.", yes=args.yes):
        return Exit.USAGE
    parameters = None if args.parameters is None else options.object_of(args.parameters, "--parameters")
    more = {"limit": args.limit, "parameters": parameters, "priority": args.priority, "reason": args.reason}
    if args.rate is None and args.undo is None:
        done = client.replay_many(**wanted, **more)
        out.answer(done, _summary(done))
        return (
            Exit.OK if all(it["outcome"] in {"replayed", "already replayed"} for it in done["items"]) else Exit.FAILED
        )
    batch = client.replay_in_batch(**wanted, **more, rate_per_minute=args.rate, undo_seconds=args.undo or 0.0)
    out.answer(batch, _batch(batch))
    if batch["already_open"]:
        out.note(f"this open batch of {batch['actor']} does the same already: no second one was made")
    out.note(f"to undo it, or to stop the rest: dalston dead-letters undo {batch['replay_batch_id']}")
    return Exit.OK


def run_discard(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    if not out.confirm(f"{text.counted(len(args.ids), 'dead letter')} would be closed without a replay.", yes=args.yes):
        return Exit.USAGE
    done, failures = for_each(args.ids, lambda each: client.discard(each, reason=args.reason))
    if done:
        closed = sum(it["discarded"] for it in done)
        out.answer(done, f"{closed} discarded, {len(done) - closed} were closed before.")
    return report_failures(out, args.ids, failures)


def run_batches(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    if args.replay_batch_id is not None:
        batch = client.replay_batch(args.replay_batch_id)
        out.answer(batch, _batch(batch))
        return Exit.OK
    batches = list(client.replay_batches(limit=args.limit))
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
    out.rows(batches, ("batch", "state", "handled", "by", "made"), rows, "no replay batches")
    return Exit.OK


def run_undo(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    done = client.undo_replay_batch(args.replay_batch_id, reason=args.reason)
    out.answer(done, f"{done['outcome']}: {_batch(done['replay_batch'])}")
    return Exit.OK


def _filters(args: argparse.Namespace) -> dict[str, Any]:
    return {**{name: getattr(args, name) for name in _FILTERS}, **options.span(args)}


def _selection(args: argparse.Namespace) -> dict[str, Any]:
    filters = {name: value for name, value in _filters(args).items() if value is not None}
    if args.ids and (filters or args.all):
        raise UsageError("Name dead letters, or filters, and not both.")
    if not args.ids and not filters and not args.all:
        raise UsageError("Name dead letters, or a filter, or --all.")
    return {"ids": args.ids} if args.ids else {"filters": filters}


def _summary(done: answers.ReplayedMany) -> str:
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
