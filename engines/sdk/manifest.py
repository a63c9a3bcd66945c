"""engine.yaml, read and validated: the queues of an engine, its command, its GPUs. For engines and the supervisor."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import yaml

from dalston_queue.broker.engine.consumer import MAX_CAPACITY
from dalston_queue.broker.protocol.keys import NAME

T = TypeVar("T")

BUILTIN = Path(__file__).resolve().parents[1]  # the engines that come with Dalston, in a clone or an installed wheel

CONFIG_EXIT = 78  # EX_CONFIG of sysexits.h: the supervisor does not start such an engine again
MAX_PREFETCH = 100  # as many as other queues hold by default; all of them are reclaimed when the process dies
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class ManifestError(Exception):
    """A file that can't be used. The message names the file and the field."""


class Gpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GPUs that one process of this engine needs, and the memory on each of them."""

    count: Annotated[int, msgspec.Meta(ge=1, le=16)] = 1
    vram_mib: Annotated[int, msgspec.Meta(ge=0)] = 0


class Probe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A health check: the SDK's own, a command that must exit 0, or a URL that must answer 2xx. Two failures in a row
    count."""

    command: tuple[str, ...] = ()
    url: str = ""
    every: Seconds = 15.0
    timeout: Seconds = 5.0


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One engine.yaml. Times are seconds."""

    id: str
    command: tuple[str, ...]
    stage: str = ""
    stages: tuple[str, ...] = ()
    version: str = "0"
    capabilities: tuple[str, ...] = ()
    capacity: Annotated[int, msgspec.Meta(ge=1, le=MAX_CAPACITY)] = 1
    prefetch: Annotated[int, msgspec.Meta(ge=0, le=MAX_PREFETCH)] = 1  # tasks claimed beyond capacity
    gpu: Gpu | None = None
    env: dict[str, str] = {}
    timeout: Seconds | None = None  # the longest that one task may run here; a task's own timeout may be shorter
    ready_timeout: Seconds = 600.0  # from start to READY=1
    watchdog: Seconds | None = None  # the longest time without progress of a working engine
    stop_grace: Seconds = 30.0  # from TERM until unfinished tasks are released
    probe: Probe | None = Probe(every=60.0)  # the SDK's own; None, in the file `null`, for none
    breaker: bool = True  # circuit breaker: no claim for a while after too many failures in a row
    folder: str = ""  # where the file is; filled in by the reader

    @property
    def queues(self) -> tuple[str, ...]:
        return self.stages or (self.stage,)

    @property
    def holds(self) -> int:
        """How many tasks one process holds at most, running and prefetched."""
        return min(self.capacity + self.prefetch, MAX_CAPACITY)


def engine_path(name: str, base: Path) -> Path:
    """The folder or file of this name: `builtin` and `builtin/demo` come with Dalston, the others are below `base`."""
    first, *rest = name.split("/")
    return BUILTIN.joinpath(*rest) if first == "builtin" else base / name


def read_manifest(path: str | Path) -> Manifest:
    """The manifest in this file (or in this folder's engine.yaml). Raises ManifestError, never anything else."""
    file = Path(path)
    if file.is_dir():
        file = file / "engine.yaml"
    document = read_yaml(file)
    if "folder" in document:
        raise ManifestError(f"{file}: field folder: is set by the reader of this file, remove it")
    manifest = convert(file, document, Manifest)
    _check(file, manifest)
    return msgspec.structs.replace(manifest, folder=str(file.parent.resolve()))


def read_yaml(file: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Shared with node.yaml."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ManifestError(f"{file}: can't be read: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date that no calendar has is a ValueError
        raise ManifestError(f"{file}: is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise ManifestError(f"{file}: must be a mapping of fields, such as `id: demo`")
    return document


def convert(file: Path, document: dict[str, Any], kind: type[T]) -> T:
    """The mapping as a typed value, or a ManifestError that names file and field."""
    try:
        return msgspec.convert(document, kind, strict=True)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        field = where.rstrip("`") or "(top)"
        unknown = re.search(r"unknown field `([^`]+)`", what) or re.search(r"missing required field `([^`]+)`", what)
        if unknown:
            name = unknown.group(1)
            field = name if field == "(top)" else f"{field}.{name}"
        raise ManifestError(f"{file}: field {field}: {what[0].lower()}{what[1:]}") from None


def _check(file: Path, manifest: Manifest) -> None:
    for field, problem in _problems(manifest):
        raise ManifestError(f"{file}: field {field}: {problem}")


def _problems(manifest: Manifest) -> Iterator[tuple[str, str]]:
    if not NAME.fullmatch(manifest.id):
        yield "id", f"{manifest.id!r} must match {NAME.pattern}"
    if bool(manifest.stage) == bool(manifest.stages):
        yield "stage", "set either `stage: name` or `stages: [names]`"
    for field, names in (("stages", manifest.queues), ("capabilities", manifest.capabilities)):
        yield from ((field, f"{name!r} must match {NAME.pattern}") for name in names if not NAME.fullmatch(name))
        if len(set(names)) != len(names):
            yield field, "names one thing twice"
    yield from _process_problems(manifest)
    if manifest.probe and manifest.probe.command and manifest.probe.url:
        yield "probe", "set either `command: [argv]` or `url: http://...`; without both it is the SDK's own"


def _process_problems(manifest: Manifest) -> Iterator[tuple[str, str]]:
    if not manifest.command or not all(manifest.command):
        yield "command", "must be a list of at least one non-empty string"
    probe = manifest.probe.command if manifest.probe else ()
    strings = {"command": manifest.command, "env": (*manifest.env, *manifest.env.values()), "probe.command": probe}
    for field, values in strings.items():
        if any("\0" in value for value in values):
            yield field, "has a NUL character in it, which no command and no environment can hold"
    for name in sorted(manifest.env):
        if not name or "=" in name:
            yield "env", f"{name!r} is no name of a variable"
        if name.startswith("DALSTON_") or name == "NOTIFY_SOCKET":
            yield "env", f"{name} is set by the supervisor, remove it"
