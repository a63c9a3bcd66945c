"""What an operator asks of a node, read from a form. Pure: form and node go in, an order or a sentence comes out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dalston_queue.broker.nodes.commands import MAX_REPLICAS, Order
from dalston_queue.broker.protocol.names import COMMAND_ID
from dalston_queue.dashboard.nodes.cards import NodeCard
from dalston_queue.dashboard.parts.reason import cleaned

_DESTROYS = {Order.DRAIN, Order.CORDON, Order.RESTART, Order.ROLLING_RESTART}
"""Work is handed back or kept away: somebody will ask why."""


@dataclass(frozen=True, slots=True)
class NodeOrder:
    name: str
    arguments: dict[str, Any]
    reason: str
    command_id: str


def read_order(form: Mapping[str, str], node: NodeCard) -> NodeOrder | str:
    """A string says what is wrong with it."""
    name, command_id = form.get("order", ""), form.get("command_id", "")
    if name not in set(Order) or not re.fullmatch(COMMAND_ID, command_id):
        return "That is no command for a node. Reload the page and try again."
    reason = cleaned(form.get("reason", ""))
    arguments: dict[str, Any] = {"reason": reason} if reason else {}
    wrong = _read_target(name, form, node, arguments)
    if wrong:
        return wrong
    if not reason and (name in _DESTROYS or _shrinks(name, arguments, node)):
        return f"Nothing was requested: say why you {name.replace('_', ' ')}, it takes work away."
    return NodeOrder(name, arguments, reason, command_id)


def _read_target(name: str, form: Mapping[str, str], node: NodeCard, arguments: dict[str, Any]) -> str:
    if name in {"restart", "rolling_restart", "scale"}:
        engine = form.get("engine", "")
        if name == "rolling_restart":
            engine = _kind_of(engine, node)
        slots = {each.slot for each in node.engines if each.kind}
        if engine not in node.kinds and not (name == "restart" and engine in slots):
            return f"Nothing was requested: there is no engine {engine!r} on {node.id}."
        arguments["engine"] = engine
    if name == "scale":
        count = form.get("replicas", "")
        if not (count.isascii() and count.isdigit()) or len(count) > 9 or int(count) > MAX_REPLICAS:
            return f"Nothing was requested: processes must be a number from 0 to {MAX_REPLICAS}."
        arguments["replicas"] = int(count)
    if name == "release_gpu":
        arguments["gpu"] = form.get("gpu", "")
        if arguments["gpu"] not in {gpu.uuid for gpu in node.gpus}:
            return f"Nothing was requested: {node.id} has no such GPU."
    return ""


def _kind_of(engine: str, node: NodeCard) -> str:
    """A rolling restart is of all processes of an engine: a single one names its kind."""
    return next((each.kind for each in node.engines if each.slot == engine and each.kind), engine)


def _shrinks(name: str, arguments: dict[str, Any], node: NodeCard) -> bool:
    return name == "scale" and arguments["replicas"] < node.kinds[arguments["engine"]]
