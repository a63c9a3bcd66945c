"""The node's GPUs for the fleet: the probe's readings, the health of each GPU, admission of engines."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from dalston_queue.broker.nodes.reports import GpuReport, GpusReport
from engines.sdk.manifest import Gpu

from ..policy import gpu_health
from ..policy.admission import Admission, admit, reservation
from ..policy.gpu_health import Health, Response, Standing
from .monitor import GpuMonitor
from .reading import Device

log = structlog.get_logger("supervisor.gpu")


@dataclass(frozen=True, slots=True)
class Tenant:
    """An engine with GPUs reserved."""

    need: Gpu | None
    gpus: tuple[str, ...]


class Gpus:
    def __init__(self, allowed: tuple[str, ...] | None, headroom_mib: int, monitor: GpuMonitor) -> None:
        self.allowed = allowed
        self.headroom_mib = headroom_mib
        self.monitor = monitor
        self.health: dict[str, Health] = {}
        self.xids: dict[str, int] = {}  # the last number by UUID, for the gauge

    def read(self, now: float) -> list[tuple[str, Response]]:
        """Reads the probe; returns the responses to new Xid errors by UUID."""
        responses: list[tuple[str, Response]] = []
        for reading in self.monitor.read(now):
            for xid in reading.xids:
                response = gpu_health.on_xid(self.health.get(xid.uuid, Health()), xid.number, now)
                self.health[xid.uuid] = response.health
                self.xids[xid.uuid] = xid.number
                log.warning("xid", gpu=xid.uuid, number=xid.number, standing=str(response.health.standing))
                responses.append((xid.uuid, response))
        for uuid, health in self.health.items():
            self.health[uuid] = gpu_health.on_time(health, now)
        return responses

    def admit(self, need: Gpu | None, tenants: Iterable[Tenant]) -> Admission:
        reading = self.monitor.reading
        reserved: dict[str, int] = {}
        for tenant in tenants:
            for uuid in tenant.gpus:
                device = reading.device(uuid) if reading else None
                if device is not None:
                    reserved[uuid] = reserved.get(uuid, 0) + reservation(tenant.need, device)
        closed = {uuid: health.why for uuid, health in self.health.items() if health.standing is Standing.QUARANTINED}
        return admit(need, reading, reserved=reserved, headroom=self.headroom_mib, allowed=self.allowed, closed=closed)

    def release(self, uuid: str, now: float) -> bool:
        """From quarantine to probation, by an operator."""
        health = self.health.get(uuid)
        if health is None or health.standing is not Standing.QUARANTINED:
            return False
        self.health[uuid] = gpu_health.released(health, now)
        return True

    def held_by(self, pids: Iterable[int], since: float) -> str:
        """Why the slot must wait for GPU memory of its dead processes; empty if the memory is free."""
        if self.monitor.read_at <= since and self.monitor.child is not None:
            return "waiting for a reading of the GPU's memory"
        reading = self.monitor.reading
        for device in reading.devices if reading else ():
            for pid in pids:
                if pid in device.processes:
                    return f"dead process {pid} still holds {device.processes[pid]} MiB on GPU {device.index}"
        return ""

    def describe(self, now: float) -> GpusReport:
        """For the node's heartbeat."""
        reading = self.monitor.reading
        if reading is None:
            return GpusReport(problem="no reading yet")
        devices = [self._report(device, now) for device in reading.devices]
        return GpusReport(problem=reading.problem, driver=reading.driver, devices=devices)

    def _report(self, device: Device, now: float) -> GpuReport:
        health = self.health.get(device.uuid, Health())
        unhealthy = health.standing is not Standing.HEALTHY
        return GpuReport(
            uuid=device.uuid,
            index=device.index,
            name=device.name,
            total_mib=device.total_mib,
            used_mib=device.used_mib,
            utilisation=device.utilisation,
            temperature=device.temperature,
            power_w=device.power_w,
            standing=str(health.standing),
            why=health.why if unhealthy else "",
            until_ms=int((time.time() + health.until - now) * 1000) if unhealthy else 0,
            last_xid=self.xids.get(device.uuid, 0),
        )
