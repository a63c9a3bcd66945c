"""`dalston watch`: watches a job. On a terminal a bar per stage, elsewhere a line per task event, or a line of JSON."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Any

from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from dalston_client import answers
from dalston_client.cli import options, text
from dalston_client.cli.exits import Exit
from dalston_client.cli.output import Out
from dalston_client.client import Client
from dalston_client.watch import Event

_OVER = {"completed", "failed", "dead_letter", "cancelled", "skipped"}


def add(commands: options.Commands) -> None:
    parser = options.command(
        commands, "watch", run, "watch a job until it is over", "Ctrl-C stops watching; the job goes on."
    )
    parser.add_argument("job_id")
    parser.add_argument("--give-up-after", type=options.duration, metavar="SECONDS", help="stop watching (exit code 9)")


def run(args: argparse.Namespace, client: Client, out: Out) -> Exit:
    return watch(client, out, args.job_id, args.give_up_after)


def watch(client: Client, out: Out, job_id: str, give_up_after: float | None) -> Exit:
    try:
        return _watch(client, out, job_id, give_up_after)
    except KeyboardInterrupt:
        return interrupted(out, job_id)


def interrupted(out: Out, job_id: str) -> Exit:
    """Ctrl-C ends the command, not the job."""
    detail = f"no longer watching; the job goes on. To stop it: dalston cancel {job_id}"
    out.failed(Exit.INTERRUPTED, {"code": "interrupted", "detail": detail, "job_id": job_id})
    return Exit.INTERRUPTED


def _watch(client: Client, out: Out, job_id: str, give_up_after: float | None) -> Exit:
    job = client.job(job_id)
    bars = Bars(out, job) if out.is_live else None
    with bars.progress if bars else nullcontext():
        for event in client.watch(job_id, timeout=give_up_after):
            if out.as_json:
                out.json({"event": event.name, "id": event.id, "data": event.data}, line=True)
            elif bars:
                bars.show(event)
            elif event.name == "task":
                out.say(_line(event.data))
            if event.name == "end":
                break
        else:
            out.note(f"the job goes on. Watch it: dalston watch {job_id}")
            return Exit.NOT_YET
    if not out.as_json:
        why = f": {event.data['error']}" if event.data["error"] else ""
        out.say(f"{job['name']} {event.data['status']}{why}")
    return Exit.OK if event.data["status"] == "completed" else Exit.FAILED


def _line(change: dict[str, Any]) -> str:
    where = f" on {change['engine_id']}" if change["engine_id"] and change["to_status"] == "running" else ""
    why = f": {change['message'] or change['cause']}" if change["message"] or change["cause"] else ""
    attempt = f" (attempt {change['attempt']})" if change["attempt"] > 1 else ""
    return f"{change['at']} {change['stage']} {change['to_status']}{where}{attempt}{text.short(why, 200)}"


class Bars:
    """One bar per stage and one for the job."""

    def __init__(self, out: Out, job: answers.Job) -> None:
        self.progress = Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[what]}", markup=False),
            console=out.console,
        )
        width = max((len(it["stage"]) for it in job["tasks"] or ()), default=0)
        self._width = max(width, len("whole job"))
        self._bars: dict[str, TaskID] = {}
        for task in job["tasks"] or ():
            done = 1.0 if task["status"] in _OVER else task["progress"] or 0.0
            self._add(task["stage"], done, task["status"])
        self._whole = self._add("whole job", job["progress"], job["status"])

    def show(self, event: Event) -> None:
        if event.name == "task":
            self._show_change(event.data)
        elif event.name == "progress":
            self.progress.update(self._whole, completed=event.data["progress"], what=text.clean(event.data["status"]))
            for running in event.data["tasks"]:
                self._show_progress(running)
        elif event.name == "end":
            self.progress.update(self._whole, completed=event.data["progress"], what=text.clean(event.data["status"]))

    def _show_progress(self, running: dict[str, Any]) -> None:
        bar = self._bars.get(running["stage"])
        if bar is None:
            return
        if not running["progress_known"]:
            self.progress.update(bar, what="running; its progress is not known while Redis does not answer")
            return
        what = text.short(running["message"] or "running")
        self.progress.update(bar, completed=running["progress"] or 0.0, what=what)

    def _show_change(self, change: dict[str, Any]) -> None:
        bar = self._bars.get(change["stage"])
        if bar is None:
            return
        status, engine = change["to_status"], text.clean(change["engine_id"])
        if status == "running":
            self.progress.reset(bar, what=f"on {engine}")
        elif status in _OVER:
            self.progress.update(bar, completed=1.0, what=text.clean(status))
            self.progress.stop_task(bar)
        else:
            why = text.short(change["message"] or change["cause"], 40)
            self.progress.update(bar, completed=0.0, what=f"{status}{f': {why}' if why else ''}")

    def _add(self, stage: str, done: float, what: str) -> TaskID:
        name = text.short(stage, 64)
        started = what not in {"pending", "scheduled", "ready", "queued"}
        bar = self.progress.add_task(name.ljust(self._width), total=1.0, start=started, what=text.clean(what))
        self.progress.update(bar, completed=done)
        self._bars.setdefault(stage, bar)
        return bar
