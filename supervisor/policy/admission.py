"""Admission of an engine to GPUs, by UUID: `max(reserved, used by NVML) + headroom + need <= total`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engines.sdk.manifest import Gpu

from ..gpu.reading import Device, Reading


@dataclass(frozen=True, slots=True)
class Admission:
    """The UUIDs for the engine, or the reason why it has to wait."""

    gpus: tuple[str, ...] = ()
    why_not: str = ""


def admit(
    need: Gpu | None,
    reading: Reading | None,
    *,
    reserved: Mapping[str, int],
    headroom: int,
    allowed: Collection[str] | None = None,
    closed: Mapping[str, str] | None = None,
) -> Admission:
    """`reserved`: MiB by UUID for engines of this node. `closed`: GPUs in quarantine, and why."""
    if need is None:
        return Admission()
    if reading is None:
        return Admission(why_not="waiting for the first reading of the GPUs")
    if not reading.devices:
        return Admission(why_not=f"needs {need.count} GPU: {reading.problem}")
    closed = closed or {}
    usable = [device for device in reading.devices if allowed is None or device.uuid in allowed]
    reasons: list[str] = []
    free: list[tuple[int, str]] = []
    for device in usable:
        why_not = closed.get(device.uuid) or _lack(device, need, reserved.get(device.uuid, 0), headroom)
        if why_not:
            reasons.append(f"GPU {device.index}: {why_not}")
        else:
            free.append((device.total_mib - max(reserved.get(device.uuid, 0), device.used_mib), device.uuid))
    if len(free) < need.count:
        why = "; ".join(reasons) or f"the node has {len(usable)} GPUs for engines"
        return Admission(why_not=f"needs {need.count} GPU with {need.vram_mib or 'all'} MiB free: {why}")
    free.sort(reverse=True)  # the emptiest first
    return Admission(gpus=tuple(uuid for _, uuid in free[: need.count]))


def reservation(need: Gpu | None, device: Device) -> int:
    """MiB that an engine reserves on a GPU; without `vram_mib` all of it."""
    if need is None:
        return 0
    return need.vram_mib or device.total_mib


def _lack(device: Device, need: Gpu, reserved: int, headroom: int) -> str:
    if not need.vram_mib:
        return f"{reserved} MiB are reserved by other engines" if reserved else ""
    taken = max(reserved, device.used_mib)
    if taken + headroom + need.vram_mib <= device.total_mib:
        return ""
    return f"{taken} of {device.total_mib} MiB are taken and {headroom} MiB stay free"
