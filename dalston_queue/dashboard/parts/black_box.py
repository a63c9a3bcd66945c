"""Evidence of failures, made readable: a dead engine's black box, and messages that could not be read.

Both come from outside and may have any shape: what is not as expected is shown as JSON, never dropped.
"""

from __future__ import annotations

import json
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAX_DUMPED = 4_096
WIDTH = 16


@dataclass(frozen=True, slots=True)
class GpuSample:
    uuid: str
    used_mib: str
    utilisation: str
    temperature: str


@dataclass(frozen=True, slots=True)
class BlackBox:
    text: str  # how it ended, in words
    facts: tuple[tuple[str, str], ...]  # exit code, signal, …
    log: str
    stack: str
    gpus: tuple[GpuSample, ...]
    rest: str  # fields that we do not know, as JSON


def black_box(evidence: Any) -> BlackBox | None:
    if evidence is None:
        return None
    if not isinstance(evidence, dict):
        return BlackBox("", (), "", "", (), pretty(evidence))
    left = dict(evidence)
    log, stack, gpus = _lines(left.pop("log", None)), _lines(left.pop("stack", None)), _gpus(left.pop("gpu", None))
    text = left.pop("text", None)
    facts = [(name.replace("_", " "), _word(left.pop(name))) for name in list(left) if _is_plain(left[name])]
    return BlackBox(str(text or ""), tuple(facts), log, stack, gpus, pretty(left) if left else "")


@dataclass(frozen=True, slots=True)
class RawField:
    name: str
    text: str
    is_bytes: bool


def raw_fields(raw: Any) -> tuple[RawField, ...]:
    """As `jobs/lifecycle/dead_letters.py` keeps them: text as text, everything else as {"base64": …}."""
    if not isinstance(raw, dict):
        return () if raw is None else (RawField("", pretty(raw), False),)
    return tuple(_raw_field(name, value) for name, value in raw.items())


def hex_dump(data: bytes) -> str:
    lines = [
        f"{start:08x}  {data[start : start + WIDTH].hex(' '):<47}  {_printable(data[start : start + WIDTH])}"
        for start in range(0, min(len(data), MAX_DUMPED), WIDTH)
    ]
    return "\n".join(lines + [f"… {len(data)} bytes in all"] * (len(data) > MAX_DUMPED))


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _raw_field(name: str, value: Any) -> RawField:
    if isinstance(value, str):
        return RawField(name, value, False)
    if isinstance(value, dict) and isinstance(value.get("base64"), str):
        try:
            return RawField(name, hex_dump(b64decode(value["base64"], validate=True)), True)
        except (Error, ValueError):
            pass
    return RawField(name, pretty(value), False)


def _printable(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in data)


def _lines(value: Any) -> str:
    if isinstance(value, list):
        return "\n".join(str(line) for line in value)
    return value if isinstance(value, str) else ("" if value is None else pretty(value))


def _word(value: object) -> str:
    return "none" if value is None else str(value)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _gpus(value: Any) -> tuple[GpuSample, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(_samples(value))


def _samples(value: list[Any]) -> Iterator[GpuSample]:
    for sample in value:
        if isinstance(sample, dict):
            known = {name: "not known" if found is None else str(found) for name, found in sample.items()}
            yield GpuSample(
                known.get("uuid", "not known"),
                known.get("used_mib", "not known"),
                known.get("utilisation", "not known"),
                known.get("°C", "not known"),
            )
