"""GPU health by Xid errors: restart, quarantine, probation."""

import pytest

from supervisor.policy import gpu_health
from supervisor.policy.gpu_health import Health, Standing


@pytest.mark.parametrize("number", [13, 31, 43, 45])
def test_an_application_xid_restarts_the_engine_and_leaves_the_gpu_in_use(number: int) -> None:
    response = gpu_health.on_xid(Health(), number, now=0.0)
    assert response.restart_engines
    assert not response.evict_engines
    assert response.health.standing is Standing.HEALTHY


@pytest.mark.parametrize("number", [48, 79, 95, 119])
def test_a_gpu_xid_quarantines_and_leads_back_over_probation(number: int) -> None:
    response = gpu_health.on_xid(Health(), number, now=0.0)
    assert response.evict_engines
    health = response.health
    assert gpu_health.on_time(health, 599.0).standing is Standing.QUARANTINED
    health = gpu_health.on_time(health, 600.0)
    assert health.standing is Standing.PROBATION
    assert gpu_health.on_time(health, 1200.0).standing is Standing.HEALTHY
    again = gpu_health.on_xid(health, number, now=700.0).health
    assert again.until == 700.0 + 1200.0


def test_an_admin_can_release_a_gpu_before_its_time() -> None:
    health = gpu_health.on_xid(Health(), 79, now=0.0).health
    assert gpu_health.released(health, 10.0).standing is Standing.PROBATION
