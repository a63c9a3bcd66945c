"""Log lines for the support bundle: our own about tasks, of fields whose form is known."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dalston_queue.jobs.lifecycle.transition_log import JOB_EVENTS, TASK_EVENTS

MAX_LOG_BYTES = 4 << 20
"""Of each log file, from its end, as it is read."""
_LOG_EVENTS = frozenset(
    {*TASK_EVENTS.values(), *JOB_EVENTS.values()}
    | {"task_claimed", "claimed_stale_task", "task_settled", "result_refused", "task_reclaimed", "task_exhausted"}
    | {"engine_unhealthy", "engine_healthy"}
)
_LOG_FIELDS = {
    "timestamp": re.compile(r"[0-9T:.+Z-]{1,40}"),
    "level": re.compile(r"[a-z]{1,10}"),
    "logger": re.compile(r"[A-Za-z0-9_.]{1,80}"),
    **dict.fromkeys(("trace_id", "job_id", "task_id"), re.compile(r"[0-9a-f-]{1,36}")),
    **dict.fromkeys(("queue", "cause", "outcome"), re.compile(r"[a-z][a-z0-9_-]{0,40}")),
    **dict.fromkeys(("attempt", "delivery_count", "failures_in_a_row"), re.compile(r"\d{1,9}")),
    "engine_id": re.compile(r"[A-Za-z0-9._-]{1,200}"),
    "error_type": re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,80}"),
}


def log_lines(file: Path) -> Iterator[str]:
    """Our own lines about tasks, of fields whose form is known. An author's lines are counted: they may be anything."""
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - MAX_LOG_BYTES))
        lines = content.read().splitlines()
    others = 0
    for each in lines:
        kept = _own(each)
        if kept is None:
            others += 1
        else:
            yield json.dumps(kept)
    yield f"{others} other lines are left out"


_READABLE = re.compile(r"\[(?P<level>\w+) *\] (?P<event>\w+) +\[(?P<logger>[\w.]+)\] (?P<fields>.*)")


def _readable(line: bytes) -> dict[str, str] | None:
    """A line as development writes it (task_log.plain_lines)."""
    found = _READABLE.search(line.decode(errors="replace"))
    if found is None:
        return None
    return {**dict(re.findall(r"(\w+)=(\S+)", found["fields"])), **found.groupdict()}


def _own(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line[line.index(b"{") :])
    except ValueError:
        found = _readable(line)
    if not isinstance(found, dict) or found.get("event") not in _LOG_EVENTS:
        return None
    return {
        "event": found["event"],
        **{
            name: found[name]
            for name, form in _LOG_FIELDS.items()
            if name in found and form.fullmatch(str(found[name]))
        },
    }
