"""The dashboard over a full queue with 50 viewers: delay of changes, bytes, CPU of the web process."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import django

from bench.harness.figures import Section, Target, percentile
from bench.harness.processes import ROOT, cpu_seconds
from bench.harness.run import Command, Run
from bench.harness.servers import Database, private_postgres, private_valkey
from bench.harness.web import Web, serving
from dalston_site.embedded.guarded import guarded

if TYPE_CHECKING:
    from bench.harness.changes import Made
    from bench.harness.full_queue import Size

SHARES = {
    "/ws/overview/": 0.40,
    "/ws/queues/transcribe/": 0.20,
    "/ws/nodes/": 0.16,
    "/ws/nodes/node-00/": 0.08,
    "/ws/jobs/": 0.08,
    "/ws/dead-letters/": 0.08,
}
"""The viewers of each page, as a share of all."""
PAGES = ("/", "/queues/transcribe/", "/nodes/", "/nodes/node-00/", "/jobs/", "/dead-letters/")
PAINTS = 10
SCREEN_S, CPU_SHARE, PAINT_MS = 1.5, 0.6, 300.0


def dashboard(*, small: bool, seconds: float) -> Iterator[Section]:
    with private_valkey() as valkey, private_postgres(fast=True) as postgres:
        urls = {"DATABASE_URL": Database(postgres.url, 0).url, "REDIS_URL": valkey.url}
        environment = {"DALSTON_DEV": "1", "DJANGO_SETTINGS_MODULE": "dalston_site.settings", **urls}
        os.environ.update(environment)
        django.setup()
        from django.core.management import call_command

        from bench.harness.full_queue import FULL, SMALL, fill
        from dalston_queue.redis import get_broker

        size, begun = SMALL if small else FULL, time.monotonic()
        call_command("migrate", verbosity=0)
        fill(get_broker(), size)
        print(
            f"Filled in {time.monotonic() - begun:.0f} s, directly: {size.waiting:,} waiting and {size.pending:,} "
            "running tasks by INSERT … SELECT, the entries of the windows and of what runs by a script inside Valkey, "
            f"{size.engines} engines by beats. No engine and no orchestrator runs; beats and 20 tasks a second go on "
            "meanwhile.",
            flush=True,
        )
        with serving("dalston_site.asgi:application", environment, "/readyz") as web:
            yield from _measure(web, size, seconds)


def _measure(web: Web, size: "Size", seconds: float) -> Iterator[Section]:
    from bench.harness.changes import Load, kinds_of_change, make_changes
    from dalston_queue.redis import get_broker

    broker, cookie = get_broker(), _cookie()
    paths = {path: max(1, round(share * size.viewers)) for path, share in SHARES.items()}
    with Load(broker, size), _viewers(web, cookie, paths) as viewers:
        time.sleep(2)  # a new viewer gets the whole page, and that is not the steady state
        _send(viewers, "begin")
        before, begun = cpu_seconds([web.pid]), time.monotonic()
        made = make_changes(kinds_of_change(broker, size), seconds)
        time.sleep(2 * SCREEN_S)
        took = time.monotonic() - begun
        cpu = (cpu_seconds([web.pid]) - before) / took
        painted = _paints(web, cookie)
        output, _ = viewers.communicate(timeout=60)
        found = json.loads(output.splitlines()[-1])
    yield _screens(found, made, paths)
    yield _cost(found, paths, cpu, took)
    yield painted


def _screens(found: dict[str, Any], made: "Made", paths: dict[str, int]) -> Section:
    section = Section("Change to screen", ["", "changes", "arrivals", "p50 s", "p99 s", "slowest"])
    every: list[float] = []
    missing = 0
    for name in dict.fromkeys(kind.name for kind in made.kind_of.values()):
        numbers = [number for number, kind in made.kind_of.items() if kind.name == name]
        took: list[float] = []
        for number in numbers:
            for path in made.kind_of[number].paths:
                arrived = found["arrived"].get(path, {}).get(number, [])
                took += [at - made.at[number] for at in arrived]
                missing += paths[path] - len(arrived)
        every += took
        row = [f"{percentile(took, share):.2f}" for share in (0.5, 0.99)] + [f"{max(took):.2f}"] if took else ["-"] * 3
        section.rows.append([name, str(len(numbers)), str(len(took)), *row])
    p99 = percentile(every, 0.99) if every else float("inf")
    section.targets.append(Target(f"p99 of all {p99:.2f} s (target {SCREEN_S} s)", p99 < SCREEN_S))
    section.targets.append(
        Target(f"{missing} arrivals missing, {len(found['lost'])} viewers lost", not missing and not found["lost"])
    )
    section.notes += found["lost"][:3]
    return section


def _cost(found: dict[str, Any], paths: dict[str, int], cpu: float, took: float) -> Section:
    section = Section(
        f"The web process with {sum(paths.values())} viewers, over {took:.0f} s",
        ["", "viewers", "bytes/s on the wire, each", "of HTML"],
    )
    for path, count in paths.items():
        wire, text = found["bytes"][path]
        section.rows.append([path, str(count), f"{wire / took / count:,.0f}", f"{text / took / count:,.0f}"])
    section.targets.append(Target(f"{cpu:.0%} of a core (target under {CPU_SHARE:.0%})", cpu < CPU_SHARE))
    section.notes.append(f"load of the machine {os.getloadavg()[0]:.1f}; CPU seconds count whatever else runs")
    return section


def _paints(web: Web, cookie: str) -> Section:
    section = Section(
        f"First paint: the page's HTML, {PAINTS} times one after the other, with the viewers connected",
        ["", "KiB", "median ms", "slowest", "CPU ms of the web process"],
    )
    slowest = 0.0
    for path in PAGES:
        before, took, length = cpu_seconds([web.pid]), [], 0
        for _ in range(PAINTS):
            begun = time.perf_counter()
            length = len(_get(web, path, cookie))
            took.append((time.perf_counter() - begun) * 1000)
        median = percentile(took, 0.5)
        slowest = max(slowest, median)
        cpu = (cpu_seconds([web.pid]) - before) * 1000 / PAINTS
        section.rows.append([path, f"{length / 1024:.0f}", f"{median:.0f}", f"{max(took):.0f}", f"{cpu:.0f}"])
    section.targets.append(
        Target(f"{slowest:.0f} ms for the slowest page (target {PAINT_MS:.0f} ms)", slowest < PAINT_MS)
    )
    section.notes.append("the CPU includes what the viewers' ticks took meanwhile")
    return section


def _get(web: Web, path: str, cookie: str) -> bytes:
    request = urllib.request.Request(f"http://127.0.0.1:{web.port}{path}", headers={"Cookie": f"sessionid={cookie}"})
    with urllib.request.urlopen(request, timeout=60) as response:
        body: bytes = response.read()
    return body


def _cookie() -> str:
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client()
    client.force_login(User.objects.create_superuser("bench", password=None))
    return client.cookies["sessionid"].value


@contextmanager
def _viewers(web: Web, cookie: str, paths: dict[str, int]) -> "Iterator[subprocess.Popen[str]]":
    argv = guarded([sys.executable, "-m", "bench.harness.viewers"], dies_with=signal.SIGKILL)
    viewers = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        host = f"127.0.0.1:{web.port}"
        _send(
            viewers, json.dumps({"base": f"ws://{host}", "origin": f"http://{host}", "cookie": cookie, "paths": paths})
        )
        assert viewers.stdout
        viewers.stdout.readline()
        yield viewers
    finally:
        viewers.kill()
        viewers.wait()


def _send(process: "subprocess.Popen[str]", line: str) -> None:
    assert process.stdin
    process.stdin.write(line + "\n")
    process.stdin.flush()


def main(arguments: list[str] | None = None) -> int:
    command = Command("dashboard", __doc__)
    command.add_argument("--seconds", type=float, help="how long changes are made (40)")
    options = command.parse(arguments)
    run = Run("Postgres, Valkey with AOF everysec, one web process")
    for section in dashboard(small=options.small, seconds=options.seconds or (5 if options.small else 40)):
        run.add(section)
    run.finish(options.json)
    return 0 if options.small or run.kept_all_targets else 1


if __name__ == "__main__":
    raise SystemExit(main())
