"""Fragments of the pages of nodes, the same for a page and its WebSocket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dalston_queue.broker.nodes.commands import CommandState, CommandStatus
from dalston_queue.broker.nodes.reports import GpuReport
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.broker.protocol.validate import moment_if
from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.dashboard.nodes.cards import EngineCard, ExitCard, NodeCard
from dalston_queue.dashboard.nodes.read import Fleet, LostTask, NodeView, read_node, shared, worker_of
from dalston_queue.dashboard.overview.health import Finding, Health, Tone, badness
from dalston_queue.dashboard.parts.charts import History, series, sparkline
from dalston_queue.dashboard.parts.request import page_url
from dalston_queue.dashboard.parts.words import MACHINE_TONES, TASK_TONES, UNHEALTHY_TONES, count

EXITS_SHOWN = 20
GPU_TONES = {"healthy": "ok", "probation": "wait", "quarantined": "bad"}
EXIT_TONES = {"stopped": ""}
COMMAND_TONES: dict[str, str] = {
    CommandState.REQUESTED: "wait",
    CommandState.TAKEN: "busy",
    CommandState.DONE: "ok",
    CommandState.FAILED: "bad",
}

NO_NODE = format_html(
    "No node has joined. On a machine that should work, install the node part ({}), set {} and start {}: it starts"
    " every engine that it finds and appears here within seconds. {} says what that machine lacks.",
    *(
        format_html('<code class="mono">{}</code>', code)
        for code in ("pip install 'dalston[node]'", "REDIS_URL", "manage.py runsupervisor", "manage.py doctor")
    ),
)
NO_ENGINE = "No engine here. A supervisor starts each one whose engine.yaml it finds."
NO_COMMAND = "No command to this node within the last day."
NO_EXIT = "No engine process has ended since the supervisor started."
NO_LOST = "Its engines had no task in their last heartbeat."

gpu_history = History("gpu")


# --- all nodes --------------------------------------------------------------------------------------------------------


def fleet_fragments() -> list[Fragment]:
    fleet = shared.get()
    rows = None if fleet.nodes is None else [row for node in fleet.nodes for row in _node_rows(node)]
    summary = render("_health", id="summary", health=_summary(fleet))
    return [as_of(fleet.at), Fragment("summary", summary), table("fleet", rows, columns=5, empty=NO_NODE)]


def _summary(fleet: Fleet) -> Health:
    if fleet.nodes is None:
        return Health(Tone.BAD, "Redis does not answer: the state of the nodes is not known.", ())
    findings = [finding for node in fleet.nodes for finding in _findings(node)]
    engines = [engine for node in fleet.nodes for engine in node.engines]
    ready = sum(engine.state == EngineState.READY for engine in engines)
    running = sum(engine.running for engine in engines)
    of = f"{ready} of {count(len(engines), 'engine')} ready, {running} running" if engines else "no engines"
    headline = f"{count(len(fleet.nodes), 'node').capitalize()}, {of}."
    worst = max(findings, key=badness).tone if findings else Tone.OK
    return Health(worst if engines else Tone.WARN, headline, tuple(findings))


def _findings(node: NodeCard) -> Iterator[Finding]:
    there = page_url("node", node.id)
    if node.state == NodeState.DEAD:
        yield Finding(Tone.BAD, f"{node.id} is dead: its tasks were reclaimed.", there)
        return
    if node.state in {NodeState.DRAINING, NodeState.CORDONED}:
        yield Finding(Tone.WARN, f"{node.id} is {node.state}{': ' if node.why else ''}{node.why}.", there)
    for engine in node.engines:
        if engine.state in UNHEALTHY_TONES:
            why = f": {engine.why}" if engine.why else ""
            text = f"{engine.slot} on {node.id or 'no node'} is {engine.state}{why}."
            yield Finding(Tone(UNHEALTHY_TONES[engine.state]), text, there)
    for gpu in node.gpus:
        if gpu.standing != "healthy":
            how = "on probation" if gpu.standing == "probation" else gpu.standing
            yield Finding(Tone.WARN, f"GPU {gpu.index} of {node.id} is {how}: {gpu.why}.", there)


def _node_rows(node: NodeCard) -> list[Row]:
    engines = [_fleet_engine(engine) for engine in node.engines]
    return [_fleet_node(node), *engines, *(_fleet_gpu(node.id, gpu) for gpu in node.gpus)]


@lru_cache(maxsize=512)
def _fleet_node(node: NodeCard) -> Row:
    row_id = f"node-{node.id or 'none'}"
    return Row(row_id, render("nodes/_fleet_node", row_id=row_id, node=node, tone=MACHINE_TONES.get(node.state, "")))


@lru_cache(maxsize=2048)
def _fleet_engine(engine: EngineCard) -> Row:
    row_id, tone = f"engine-{engine.id}", MACHINE_TONES.get(engine.state, "")
    return Row(row_id, render("nodes/_fleet_engine", row_id=row_id, engine=engine, tone=tone))


@lru_cache(maxsize=1024)
def _fleet_gpu(node_id: str, gpu: GpuReport) -> Row:
    row_id = f"gpu-{node_id}-{gpu.uuid}"
    tone = GPU_TONES.get(gpu.standing, "")
    return Row(row_id, render("nodes/_fleet_gpu", row_id=row_id, gpu=gpu, tone=tone, **_memory(gpu)))


# --- one node ---------------------------------------------------------------------------------------------------------


def node_fragments(node_id: str, query: Mapping[str, str], may_operate: bool) -> list[Fragment]:
    """A node that was forgotten while its page was open is shown as gone."""
    view = read_node(node_id) or NodeView(timezone.now(), node_id, None, True, None, (), ())
    return fragments_of(view, worker_of(query), may_operate)


def fragments_of(view: NodeView, worker_id: str = "", may_operate: bool = False) -> list[Fragment]:
    """worker_id: the worker whose actions are shown. Only operators get rows with buttons."""
    card = view.card
    engines = card.engines if card else ()
    state = (card.state or "alone") if card else "gone" if view.known else "not known"
    head = render("nodes/_head", view=view, node=card, state=state, tone=MACHINE_TONES.get(state, ""))
    exits = sorted((exit_ for engine in engines for exit_ in engine.exits), key=_when, reverse=True)[:EXITS_SHOWN]
    return [
        as_of(view.at),
        Fragment("node", head),
        _rows(view, "engines", [_engine(engine, may_operate) for engine in engines], 6, NO_ENGINE),
        Fragment("worker", _worker(view, worker_id)),
        _gpus(view),
        _logs(view.id, [engine.slot for engine in engines if engine.kind]),
        _rows(view, "commands", [_command(command) for command in view.commands], 3, NO_COMMAND),
        _rows(view, "exits", [_exit(exit_) for exit_ in exits], 3, NO_EXIT),
        table("lost", [_lost(task) for task in view.lost], columns=4, empty=NO_LOST),
    ]


def _gpus(view: NodeView) -> Fragment:
    card = view.card
    gpus = card.gpus if card else ()
    past = gpu_history.get() if gpus else {}
    rows = [_gpu(gpu, *_charts(gpu, past.get(f"{view.id} {gpu.uuid}"))) for gpu in gpus]
    return _rows(view, "gpus", rows, 5, (card.gpu_problem if card else "") or "No GPU here.")


def _rows(view: NodeView, name: str, rows: list[Row], columns: int, empty: str) -> Fragment:
    return table(name, rows if view.known else None, columns=columns, empty=empty)


def _charts(gpu: GpuReport, past: list[Mapping[str, float] | None] | None) -> tuple[SafeString, SafeString, SafeString]:
    name = f"GPU {gpu.index}"
    return (
        sparkline(series(past, "used_mib"), f"Memory of {name}", top=gpu.total_mib, unit=" MiB"),
        sparkline(series(past, "utilisation"), f"Utilisation of {name}", top=100, unit=" %"),
        sparkline(series(past, "temperature"), f"Temperature of {name}", top=100, unit=" °C"),
    )


def _logs(node_id: str, slots: list[str]) -> Fragment:
    """A pane changes only when its engine comes or goes: the lines that a viewer reads must stay."""
    rows = tuple(_log(node_id, slot) for slot in dict.fromkeys(slots))
    body = "".join(row.html for row in rows) or '<p class="quiet pad">No engine of this node has a log.</p>'
    return Fragment("logs", f'<div id="logs">{body}</div>', rows)


@lru_cache(maxsize=256)
def _log(node_id: str, slot: str) -> Row:
    return Row(f"log-{slot}", render("nodes/_log", node=node_id, slot=slot))


@lru_cache(maxsize=512)
def _engine(engine: EngineCard, may_operate: bool) -> Row:
    row_id, tone = f"engine-{engine.id}", MACHINE_TONES.get(engine.state, "")
    action = _action(engine) if may_operate else ""
    return Row(row_id, render("nodes/_engine", row_id=row_id, engine=engine, tone=tone, action=action))


def _action(engine: EngineCard) -> str:
    """What an operator may do with it: a supervisor restarts its engines; a worker over HTTP is asked to leave."""
    if engine.accepts_commands:
        return "Resume" if engine.drain_requested else "Drain"
    return "Restart" if engine.kind and engine.state != EngineState.DEAD else ""


def _worker(view: NodeView, worker_id: str) -> str:
    engines = view.card.engines if view.card else ()
    worker = next((engine for engine in engines if engine.id == worker_id and _action(engine)), None)
    states = {"Drain": "working", "Resume": "draining", "Restart": "supervised"}
    state = "gone" if worker is None else states[_action(worker)]
    return render("nodes/_worker", worker=worker, worker_id=worker_id, state=state if view.known else "not known")


@lru_cache(maxsize=256)
def _gpu(gpu: GpuReport, memory: SafeString, utilisation: SafeString, temperature: SafeString) -> Row:
    row_id = f"gpu-{gpu.uuid}"
    charts = {"memory": memory, "utilisation": utilisation, "temperature": temperature}
    tone = GPU_TONES.get(gpu.standing, "")
    figures = {**_memory(gpu), **charts, "until": moment_if(gpu.until_ms)}
    return Row(row_id, render("nodes/_gpu", row_id=row_id, gpu=gpu, tone=tone, **figures))


@lru_cache(maxsize=512)
def _exit(exit_: ExitCard) -> Row:
    row_id = f"exit-{exit_.engine_id}"
    return Row(row_id, render("nodes/_exit", row_id=row_id, exit=exit_, tone=EXIT_TONES.get(exit_.kind, "bad")))


def _command(command: CommandStatus) -> Row:
    row_id = f"command-{command.command_id}"
    arguments = command.arguments
    words = " ".join(
        str(part) for part in (command.name.replace("_", " "), arguments.get("engine"), arguments.get("gpu")) if part
    )
    replicas = arguments.get("replicas")
    return Row(
        row_id,
        render(
            "nodes/_command",
            row_id=row_id,
            command=command,
            words=words if replicas is None else f"{words} to {replicas}",
            reason=arguments.get("reason", ""),
            at=moment_if(command.requested_at_ms),
            tone=COMMAND_TONES.get(command.state, ""),
        ),
    )


@lru_cache(maxsize=256)
def _lost(task: LostTask) -> Row:
    row_id = f"lost-{task.id}"
    status, tone = task.status.replace("_", " "), TASK_TONES.get(task.status, "")
    return Row(row_id, render("nodes/_lost", row_id=row_id, task=task, status=status, tone=tone))


def _when(exit_: ExitCard) -> float:
    return exit_.at.timestamp() if exit_.at else 0.0


def _memory(gpu: GpuReport) -> dict[str, str]:
    return {"used": f"{gpu.used_mib / 1024:.1f}", "total": f"{gpu.total_mib / 1024:.0f}"}
