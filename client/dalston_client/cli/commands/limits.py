"""`dalston limits`: lists, sets and removes limits of what is in flight and of starts; the weights of projects."""

from __future__ import annotations

import argparse

from dalston_client import answers
from dalston_client.cli import options, text
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out
from dalston_client.client import Client

EXAMPLES = """\
examples:
  dalston limits set --queue transcribe --in-flight 8
  dalston limits set --queue transcribe --project acme --concurrency-key '*' --in-flight 3 --reason "three each"
  dalston limits set --project acme --per-minute 60
  dalston limits weight acme 3
"""
COLUMNS = ("limit", "queue", "project", "key", "in flight", "starts a minute", "waiting", "")


def add(commands: options.Commands) -> None:
    parser = options.command(commands, "limits", run_list, "list limits; set and remove them, and weights", EXAMPLES)
    parser.set_defaults(queue=None, project=None, limit=50)
    inner = parser.add_subparsers(title="commands", metavar="COMMAND")
    listing = options.command(inner, "list", run_list, "list limits with what is used of them")
    listing.add_argument("--queue", metavar="QUEUE", help="only of this queue")
    listing.add_argument("--project", metavar="PROJECT", help="only of this project")
    options.add_limit(listing, 50)
    setting = options.command(inner, "set", run_set, "make or change a limit; a number left out is no limit", EXAMPLES)
    setting.add_argument("--queue", metavar="QUEUE", help="of this queue")
    setting.add_argument("--project", metavar="PROJECT", help="of this project")
    setting.add_argument("--concurrency-key", metavar="KEY", help="of this key of the project; '*': of each for itself")
    setting.add_argument("--in-flight", type=_whole, metavar="N", help="so many queued or running at most; 0 stops it")
    setting.add_argument("--per-minute", type=options.positive, metavar="N", help="so many starts a minute at most")
    options.add_reason(setting)
    removal = options.command(inner, "remove", run_remove, "remove a limit")
    removal.add_argument("limit_id", type=options.positive, help="as the list shows it")
    options.add_reason(removal)
    weight = options.command(inner, "weight", run_weight, "show or set the weight of a project")
    weight.add_argument("project")
    weight.add_argument("weight", nargs="?", type=options.positive, help="3 gets three times as many slots as 1")
    options.add_reason(weight)


def _whole(word: str) -> int:
    return 0 if word == "0" else options.positive(word)


def run_list(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    found = list(client.limits(limit=args.limit, queue=args.queue, project=args.project))
    out.rows(found, COLUMNS, [_row(it) for it in found], "there is no limit: projects share the slots by their weights")
    return Exit.OK


def _row(it: answers.Limit) -> tuple[object, ...]:
    key, maximum = it["concurrency_key"] or "", it["max_in_flight"]
    in_flight = it["in_flight"] if maximum is None else f"{it['in_flight']} of {maximum}"
    notes = []
    if it["fullest_key"]:
        notes.append(f"fullest key {it['fullest_key']}, {text.counted(it['keys_at_limit'] or 0, 'key')} at the limit")
    if it["next_start_seconds"]:
        notes.append(f"next start in {text.seconds(it['next_start_seconds'])}")
    starts = it["starts_per_minute"] or ""
    names = it["limit_id"], it["queue"] or "all", it["project"] or "all", "each" if key == "*" else key
    return *names, in_flight, starts, it["waiting"], "; ".join(notes)


def run_set(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    done = client.set_limit(
        queue=args.queue,
        project=args.project,
        concurrency_key=args.concurrency_key,
        max_in_flight=args.in_flight,
        starts_per_minute=args.per_minute,
        reason=args.reason,
    )
    out.answer(done, f"limit {done['limit_id']} is set{'' if done['changed'] else ', as it was'}.")
    return Exit.OK


def run_remove(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    done = client.remove_limit(args.limit_id, reason=args.reason)
    out.answer(done, f"limit {done['limit_id']} ({done['scope']}) is removed.")
    return Exit.OK


def run_weight(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    if args.weight is None:
        done = client.weight(args.project)
        out.answer(done, _weight(done))
    else:
        changed = client.set_weight(args.project, args.weight, reason=args.reason)
        out.answer(changed, f"{_weight(changed)}{'' if changed['changed'] else ' It had this weight before.'}")
    return Exit.OK


def _weight(it: answers.Weight) -> str:
    share = f"{it['in_flight']} of {text.counted(it['all_in_flight'], 'task')} in flight"
    return f"{it['project']} has weight {it['weight']}, and {share}."
