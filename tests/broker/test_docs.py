"""docs/broker.md and docs/redis-keys.md match the code: every key, script, room and name of the first design."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

from dalston_queue.broker.connection.scripts import BROKER, files, load
from dalston_queue.broker.protocol.keys import Keys
from dalston_queue.broker.protocol.types import Role

DOCS = Path(__file__).resolve().parents[2] / "docs"
STAND_INS = {"queue": "S", "engine_id": "<id>", "node_id": "<node>", "caller": "<caller>", "role": "<role>"}


def built_keys() -> set[str]:
    """Each builder's key, with stand-ins for its arguments."""
    keys = Keys()
    found = set()
    for name, method in inspect.getmembers(keys, inspect.ismethod):
        if name.startswith("_") or name in ("lane", "lane_and_tier", "task_keys"):
            continue
        required = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        found.add(str(method(*(STAND_INS[p.name] for p in required))))
    return {key.replace("session:S:<id>", "session:S:<engine>").replace("node:<node>", "node:<id>") for key in found}


def test_every_key_is_documented_and_every_documented_key_is_built() -> None:
    text = (DOCS / "redis-keys.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    found = [key for row in rows for key in re.findall(r"`(dalston:[^`]+)`", row.split("|")[1])]
    documented = {key.replace("[@caps]", "") for key in found}
    variants = {"dalston:stream:S@caps", "dalston:stream:S:high", "dalston:events:_jobs"}
    assert documented - variants == built_keys()
    for row in rows:
        cells = row.split("|")
        assert len(cells) == 7 and all(cell.strip() for cell in cells[1:-1]), row


def test_the_roles_of_leases_are_documented() -> None:
    text = (DOCS / "redis-keys.md").read_text()
    assert all(f"`{role}`" in text for role in Role)


def test_every_counter_is_documented() -> None:
    text = (DOCS / "redis-keys.md").read_text()
    sources = "".join(path.read_text() for path in BROKER.rglob("*.lua"))
    counted = set(re.findall(r"'HINCRBY', (?:KEYS\[\d\]|keys\.counters), '(\w+)'", sources))
    assert len(counted) > 7
    (row,) = [line for line in text.splitlines() if line.startswith("| `dalston:counters:S`")]
    assert {name for name in counted - {"beat"} if name not in row} == set()


def test_every_function_of_the_first_design_is_listed() -> None:
    first_design = (
        "ensure_stream_group add_task read_task claim_stale_tasks claim_tasks_by_id ack_task get_pending "
        "discover_streams get_stream_info remove_task_from_stream claim_stale_from_dead_engines"
    )
    named = {name for name, _ in names_of_the_first_design()}
    assert {name for name in first_design.split() if not any(f"`{name}`" in cell for cell in named)} == set()
    assert "`Broker.requeue`" in dict(names_of_the_first_design())["`claim_tasks_by_id`"]


def test_the_new_names_of_the_first_design_exist() -> None:
    for name, here in names_of_the_first_design():
        ours = re.findall(r"`([^`]+)`", here)
        assert ours, f"{name} has nothing beside it"
        assert [each for each in ours if not exists(re.sub(r"\(.*\)", "", each))] == [], name


def names_of_the_first_design() -> list[tuple[str, str]]:
    """The rows of the last table of the page: the first design's name, and ours."""
    _, _, table = (DOCS / "broker.md").read_text().partition("## Names in the first design\n")
    _, _, *rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("|")]
    return [(name.strip(), here.strip()) for name, here in rows]


def exists(name: str) -> bool:
    """A script, or a class or function of some module of the broker, or an attribute of such a class."""
    if name in files():
        return True
    found: Any = None
    first, *attributes = name.split(".")
    for module in pkgutil.walk_packages([str(BROKER)], "dalston_queue.broker."):
        found = found or getattr(importlib.import_module(module.name), first, None)
    for attribute in attributes:
        found = getattr(found, attribute, None)
    return found is not None


def test_every_room_is_in_the_table() -> None:
    text = (DOCS / "broker.md").read_text()
    rooms = {path.parent.name for path in [*BROKER.rglob("*.py"), *BROKER.rglob("*.lua")]} - {BROKER.name}
    assert set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)) == rooms
    assert all(f"`{path.name}`" in text for path in BROKER.glob("*.py") if path.name != "__init__.py")


def test_every_script_declares_its_flags_keys_and_answer() -> None:
    for path in files().values():
        text = path.read_text()
        first = text.splitlines()[0]
        assert first.startswith("#!lua"), f"{path.name}: without a shebang a cluster lets it write into a foreign slot"
        adds_work = path.stem == "append"  # refused by a full server
        assert first == "#!lua" if adds_work else "flags=" in first, path.name
        for word in ("-- KEYS ", "-- ARGV ", "-- Returns "):
            assert word in text, f"{path.name} lacks {word}"
        if "no-writes" not in first:
            assert "Repeatable" in text, f"{path.name} doesn't say whether it can be repeated"
        code = re.sub(r"--.*", "", text)
        assert not re.search(r"['\"]dalston:|KEYS\[\d+\] *\.\. *'", code), f"{path.name} builds a key"


def test_includes_are_replaced_by_their_files() -> None:
    for path in files().values():
        assert b"-- include:" not in load(path.stem).source


def test_no_file_has_two_subjects() -> None:
    for path in BROKER.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 400, path.name
