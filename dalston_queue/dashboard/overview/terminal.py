"""The overview for a terminal: lines of at most 80 columns, and a document for programs."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from dalston_queue.broker.protocol.types import EngineState, Role
from dalston_queue.broker.views.snapshot import Rates
from dalston_queue.dashboard.alerts.read import AlertLine
from dalston_queue.dashboard.overview.from_postgres import COUNT_LIMIT
from dalston_queue.dashboard.overview.health import Tone, is_late, judge
from dalston_queue.dashboard.overview.values import EngineLine, InPostgres, InRedis, NodeLine, Overview
from dalston_queue.dashboard.parts.words import count, without_directions

WIDTH = 80
NOT_KNOWN = "not known: {} does not answer"
MAX_ROWS = 40
"""Of each table: a terminal is no place for hundreds; --json has them all."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Cells = tuple[object, ...]


def tone_of(overview: Overview) -> Tone:
    """The worst of the findings and of the alerts that fire. A server that is away is bad."""
    tones = [judge(overview).tone, *(_tone(alert) for alert in _alerts(overview.postgres) if alert.fired_at)]
    return max(tones, key=list(Tone).index)


def lines(overview: Overview) -> Iterator[str]:
    health = judge(overview)
    yield from _wrapped("", f"{overview.at:%Y-%m-%d %H:%M:%S} UTC  {health.headline}")
    for finding in health.findings[:MAX_ROWS]:
        yield from _wrapped(f"  {finding.tone:4} ", finding.text)
    yield from _alert_lines(overview)
    yield from _queue_lines(overview)
    yield from _node_lines(overview)
    yield from _rest(overview)


def _alert_lines(overview: Overview) -> Iterator[str]:
    alerts = _alerts(overview.postgres)
    if overview.postgres is None:
        yield from ("", f"ALERTS  {NOT_KNOWN.format('Postgres')}")
        return
    firing: Counter[str] = Counter()
    for alert in alerts:
        firing[alert.severity] += 1 + alert.more if alert.fired_at else 0
    counted = ", ".join(f"{number} {severity}" for severity, number in sorted((+firing).items()))
    pending = sum(1 + alert.more for alert in alerts if not alert.fired_at)
    yield from ("", f"ALERTS  {counted or 'none'}{f', {pending} pending' if pending else ''}")
    for alert in alerts[:MAX_ROWS]:
        state = alert.severity if alert.fired_at else "pending"
        about = f" ({alert.subject})" if alert.subject else ""
        more = f" And {alert.more} more." if alert.more > 0 else ""
        text = f"{alert.name}{about}, {age(alert.since, overview.at)}: {alert.text}{more}"
        yield from _wrapped(f"  {state:8} ", text)


def _queue_lines(overview: Overview) -> Iterator[str]:
    yield ""
    if overview.redis is None:
        yield f"QUEUES  {NOT_KNOWN.format('Redis')}"
        return
    rows: list[Cells] = []
    for queue in overview.redis.queues:
        note = "paused" if queue.paused else ""
        rows.append((queue.queue, *_waits(queue, overview.at), queue.engines, *_rates(queue.rates), note))
        for lane in queue.lanes:
            name = f"  {lane.tier}{f' @{lane.capabilities}' if lane.capabilities else ''}"
            rows.append((name, *_waits(lane, overview.at), lane.engines, *_rates(lane.rates), ""))
    head = ("QUEUES", "waiting", "running", "oldest", "engines", "in/s", "out/s", "")
    yield from _table(head, rows, "no queue yet")
    if hidden := overview.redis.shown.hidden:
        shown = overview.redis.shown
        yield f"  and {count(hidden, 'queue')} more: {shown.waiting} waiting, {shown.running} running"


def _node_lines(overview: Overview) -> Iterator[str]:
    yield ""
    if overview.redis is None:
        yield f"NODES  {NOT_KNOWN.format('Redis')}"
        return
    nodes = overview.redis.nodes
    rows: list[Cells] = []
    for node in nodes:
        ready = [engine for engine in node.engines if engine.state == EngineState.READY]
        slots = f"{sum(engine.running for engine in ready)}/{sum(engine.capacity for engine in ready)}"
        others = Counter(engine.state for engine in node.engines if engine.state != EngineState.READY)
        note = ", ".join(f"{number} {state}" for state, number in sorted(others.items()))
        rows.append((node.id, node.state, len(node.engines), len(ready), slots, note or node.note))
    yield from _table(("NODES", "state", "workers", "ready", "busy", ""), rows, "no node has been seen")
    everyone = [engine for node in nodes for engine in node.engines]
    states = Counter(engine.state for engine in everyone)
    yield f"  workers: {', '.join(f'{n} {state}' for state, n in sorted(states.items())) or 'none'}"


def _rest(overview: Overview) -> Iterator[str]:
    redis, postgres = overview.redis, overview.postgres
    yield ""
    if redis is None:
        yield f"LEADER  {NOT_KNOWN.format('Redis')}"
    elif not redis.is_led:
        yield "LEADER  none: no orchestrator holds the lease"
    elif (held := _leader(postgres)) is not None:
        yield from _wrapped("LEADER  ", f"{held['holder']}, for {age(held['since'], overview.at)}")
    else:
        yield "LEADER  there is one"
    if postgres is None:
        yield f"DEAD LETTERS, DUTIES  {NOT_KNOWN.format('Postgres')}"
        return
    number = f"more than {COUNT_LIMIT}" if postgres.dead_letters > COUNT_LIMIT else str(postgres.dead_letters or "none")
    yield f"DEAD LETTERS  {number} open, {postgres.dead_letters_made} made in the last hour"
    rows: list[Cells] = []
    for duty in postgres.duties:
        state = "late" if is_late(duty, overview.at) else "failed" if duty.error else "ok"
        rows.append((duty.name, age(duty.last_run_at, overview.at), f"{duty.took_ms} ms", state, duty.error))
    yield ""
    yield from _table(("DUTIES", "ran before", "took", "", ""), rows, "none has run yet: manage.py run_huey")


def document(overview: Overview) -> dict[str, Any]:
    """Null for a part whose server does not answer."""
    health, redis, postgres = judge(overview), overview.redis, overview.postgres
    return {
        "at": overview.at,
        "status": tone_of(overview),
        "headline": health.headline,
        "findings": [{"tone": finding.tone, "text": finding.text} for finding in health.findings],
        "redis": redis is not None,
        "postgres": postgres is not None,
        "queues": redis and [_queue_document(redis, queue) for queue in redis.queues],
        "nodes": redis and [_node_document(node) for node in redis.nodes],
        "leader": redis and {"leads": redis.is_led, **(_leader(postgres) or {})},
        "alerts": postgres and [_alert_document(alert) for alert in postgres.alerts],
        "dead_letters": postgres and {"open": postgres.dead_letters, "made_last_hour": postgres.dead_letters_made},
        "duties": postgres
        and [
            {
                "name": duty.name,
                "last_run_at": duty.last_run_at,
                "age_s": round((overview.at - duty.last_run_at).total_seconds(), 1),
                "late": is_late(duty, overview.at),
                "failed": bool(duty.error),
            }
            for duty in postgres.duties
        ],
    }


def _queue_document(redis: InRedis, queue: Any) -> dict[str, Any]:
    lanes = [lane for lane in redis.lanes if lane.queue == queue.queue]
    shared = ("waiting", "ready", "running", "oldest_at", "engines")
    return {
        "queue": queue.queue,
        "paused": queue.paused,
        **{name: getattr(queue, name) for name in shared},
        "lanes": [
            {"capabilities": lane.capabilities, "tier": lane.tier, **{name: getattr(lane, name) for name in shared}}
            for lane in lanes
        ],
    }


def _node_document(node: NodeLine) -> dict[str, Any]:
    return {"node": node.id, "state": node.state, "workers": [_worker_document(engine) for engine in node.engines]}


def _worker_document(engine: EngineLine) -> dict[str, Any]:
    names = ("id", "state", "queues", "capabilities", "capacity", "running")
    return {name: getattr(engine, name) for name in names}


def _alert_document(alert: AlertLine) -> dict[str, Any]:
    names = ("name", "subject", "severity", "state", "text", "since", "more")
    return {name: getattr(alert, name) for name in names}


def _alerts(postgres: InPostgres | None) -> Sequence[AlertLine]:
    return postgres.alerts if postgres else ()


def _tone(alert: AlertLine) -> Tone:
    return Tone.BAD if alert.severity == "critical" else Tone.WARN


def _leader(postgres: InPostgres | None) -> dict[str, Any] | None:
    leaders = postgres.leaders if postgres else ()
    found = next((leader for leader in leaders if leader.role == Role.ORCHESTRATOR), None)
    return {"holder": found.holder, "since": found.since} if found else None


def _waits(line: Any, now: datetime) -> Cells:
    waiting = "?" if line.waiting is None else line.waiting
    return waiting, line.running, age(line.oldest_at, now) if line.oldest_at else ""


def _rates(rates: Rates | None) -> Cells:
    return ("", "") if rates is None else (f"{rates.in_per_s:.1f}", f"{rates.out_per_s:.1f}")


def age(since: datetime, now: datetime) -> str:
    seconds = max(0, round((now - since).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def clean(text: object) -> str:
    """Names and texts of others, on one line: a control character would move the cursor."""
    return without_directions(_CONTROL.sub("?", str(text)))


def _wrapped(head: str, text: str) -> Iterator[str]:
    found = textwrap.wrap(clean(text), WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    yield from found or [head]


def _table(head: Cells, rows: Sequence[Cells], empty: str) -> Iterator[str]:
    """Numbers to the right, the first column and the last to the left; the first is cut so that the line fits."""
    if not rows:
        yield f"{head[0]}  {empty}"
        return
    texts = [[clean(cell) for cell in row] for row in (head, *rows[:MAX_ROWS])]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    fixed = sum(widths[1:-1]) + 2 * (len(widths) - 1)
    first = max(12, min(widths[0], WIDTH - fixed - min(widths[-1], 20)))
    for row in texts:
        middle = "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:-1], strict=True))
        yield _cut(f"{_cut(row[0], first):{first}}{middle}  {row[-1]}".rstrip(), WIDTH)
    if len(rows) > MAX_ROWS:
        yield f"  and {len(rows) - MAX_ROWS} more"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
