"""node.yaml and the engine.yaml files it leads to: read, validated, watched for changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from dalston_queue.broker.nodes.commands import MAX_REPLICAS
from dalston_queue.broker.protocol.keys import default_node_name
from dalston_queue.metrics.server import parse_address
from engines.sdk.manifest import Manifest, ManifestError, convert, engine_path, read_manifest, read_yaml

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}")  # an engine id is read from its end: dots are fine
RELOAD_POLL_S = 2.0
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_REPLICAS)]


class LogLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Disk for one engine slot: `keep` rotated files and the current one, of `max_mib` each."""

    max_mib: Annotated[int, msgspec.Meta(ge=1)] = 10
    keep: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5


class NodeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One node.yaml."""

    node: str = ""
    engines: tuple[str, ...] = ("engines",)  # folders with engine.yaml files: relative to node.yaml, or builtin
    replicas: dict[str, Count] = {}  # processes per engine id; default: 1
    gpus: tuple[str, ...] | None = None  # UUIDs to use; default: all
    labels: dict[str, str] = {}
    gpu_poll: Annotated[float, msgspec.Meta(gt=0, le=60)] = 5.0  # seconds between two readings of the GPUs
    vram_headroom_mib: Annotated[int, msgspec.Meta(ge=0)] = 512
    logs: LogLimits = LogLimits()
    http: str = ""  # address for /metrics, /healthz and /readyz, such as 0.0.0.0:9201; empty: none
    cloud: str = "none"  # whose spot notices to watch: aws, gcp, azure or none


class NodePlan(msgspec.Struct, frozen=True):
    """The configuration and the manifests that it leads to, read together: all valid, or not used at all."""

    config: NodeConfig
    manifests: dict[str, Manifest]
    watched: tuple[Path, ...]  # node.yaml and the folders of engines

    def replicas(self, engine: str) -> int:
        return self.config.replicas.get(engine, 1)


def read_plan(file: Path | None, *, engines: tuple[str, ...] = (), node: str = "", http: str = "") -> NodePlan:
    """node.yaml (if any) and every engine.yaml. What the command line names wins. Raises ManifestError."""
    config = NodeConfig()
    base = Path.cwd()
    if file is not None:
        config = convert(file, read_yaml(file), NodeConfig)
        base = file.parent
    if engines:
        config, base = msgspec.structs.replace(config, engines=engines), Path.cwd()
    config = msgspec.structs.replace(config, node=node or config.node or default_node_name(), http=http or config.http)
    if not NODE_NAME.fullmatch(config.node):
        raise ManifestError(f"{file or 'node id'}: field node: {config.node!r} must match {NODE_NAME.pattern}")
    if config.cloud not in ("none", "aws", "gcp", "azure"):
        raise ManifestError(f"{file}: field cloud: {config.cloud!r} must be aws, gcp, azure or none")
    if config.http:
        try:
            parse_address(config.http)
        except ValueError:
            raise ManifestError(
                f"{file}: field http: {config.http!r} must be host:port, such as 127.0.0.1:9201"
            ) from None
    manifests: dict[str, Manifest] = {}
    folders = [engine_path(folder, base) for folder in config.engines]
    for found in _manifest_files(folders):
        manifest = read_manifest(found)
        if manifest.id in manifests:
            other = manifests[manifest.id].folder
            raise ManifestError(f"{found}: field id: {manifest.id!r} is also the id of the engine in {other}")
        manifests[manifest.id] = manifest
    unknown = sorted(set(config.replicas) - set(manifests))
    if unknown:
        raise ManifestError(f"{file}: field replicas.{unknown[0]}: no engine has this id")
    return NodePlan(config, manifests, tuple([file] if file else []) + tuple(folders))


def _manifest_files(folders: list[Path]) -> list[Path]:
    found: list[Path] = []
    for folder in folders:
        if not folder.is_dir():
            raise ManifestError(f"{folder}: no such folder of engines")
        own = folder / "engine.yaml"
        found += [own] if own.is_file() else sorted(folder.glob("*/engine.yaml"))
    return found


class Watch:
    """Compares names, sizes and times every two seconds: no dependency, and editors may rename files."""

    def __init__(self, read: Callable[[], NodePlan], plan: NodePlan) -> None:
        self._read = read
        self._plan = plan
        self._next_at = 0.0
        self._seen = self._stat()

    def read(self) -> NodePlan:
        """The plan in the files as they are now. Raises ManifestError."""
        self._seen = self._stat()
        self._plan = self._read()
        self._seen = self._stat()  # the new node.yaml may name other folders
        return self._plan

    def changed(self, now: float) -> bool:
        if now < self._next_at:
            return False
        self._next_at = now + RELOAD_POLL_S
        return self._stat() != self._seen

    def _stat(self) -> tuple[tuple[str, int, int], ...]:
        found: list[tuple[str, int, int]] = []
        for path in self._plan.watched:
            files = [path] if path.is_file() else [path / "engine.yaml", *path.glob("*/engine.yaml")]
            for file in files:
                try:
                    status = file.stat()
                except OSError:
                    continue
                found.append((str(file), status.st_mtime_ns, status.st_size))
        return tuple(sorted(found))
