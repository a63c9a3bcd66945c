"""A reading of the node's GPUs, as the probe prints it. A leaf: imports nothing of Dalston."""

from __future__ import annotations

import msgspec


class Device(msgspec.Struct, frozen=True):
    """One GPU. Memory in MiB, power in watts, temperature in °C."""

    uuid: str
    index: int
    name: str
    total_mib: int
    used_mib: int
    utilisation: int = 0
    temperature: int = 0
    power_w: float = 0.0
    processes: dict[int, int] = {}  # MiB by pid


class Xid(msgspec.Struct, frozen=True):
    """An error that the driver reported for a GPU."""

    uuid: str
    number: int


class Reading(msgspec.Struct, frozen=True):
    """One line of the probe."""

    devices: tuple[Device, ...] = ()
    xids: tuple[Xid, ...] = ()  # since the last reading
    driver: str = ""
    problem: str = ""  # why there are no GPUs; empty if there are

    def device(self, uuid: str) -> Device | None:
        return next((device for device in self.devices if device.uuid == uuid), None)
