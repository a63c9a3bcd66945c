"""POST /jobs:batch: tasks per second into Postgres, from one client that sends one batch after the other."""

from typing import Any

from bench.apis.web import Web, request
from bench.harness.figures import Rounds, Section, Target

JOBS = 1_000
GOAL = 3_000
STAGE = {"stage": "echo", "parameters": {"language": "en", "audio": "s3://bucket/2026/11/16/call-0001.wav"}}


def batch(web: Web, token: str, *, rounds: int, batches: int) -> Section:
    body: dict[str, Any] = {"jobs": [{"name": "bench", "stages": [STAGE]} for _ in range(JOBS)]}
    content = request("POST", "/api/v1/jobs:batch", body, token)
    rate, cpu = Rounds(), Rounds(smaller_is_better=True)
    for _ in range(rounds):
        answered = web.round(content, batches, 1)
        rate.add(answered.per_second * JOBS)
        cpu.add(answered.cpu_ms / JOBS)
    section = Section(
        f"POST /jobs:batch, {batches} batches of {JOBS:,} jobs of one task (best of {rounds} rounds)",
        ["", "tasks/s", "of all rounds", "CPU ms per task"],
        [["one client", f"{rate.best:,.0f}", rate.spread, f"{cpu.best:.3f}"]],
    )
    section.targets.append(Target(f"{rate.best:,.0f} tasks/s into Postgres (target {GOAL:,})", rate.best >= GOAL))
    return section
