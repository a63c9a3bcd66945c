"""What one client's attack costs another project: p50 and p99 of its requests and tasks, with and without it."""

import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.attacks import Client
from bench.attacks import Target as Attacked
from bench.harness.figures import Section, Target, percentile
from bench.harness.installation import Installation, Rounds
from bench.harness.processes import ROOT
from bench.harness.run import Command, Run
from bench.harness.servers import private_postgres, private_valkey
from dalston_site.embedded.guarded import guarded

MAX_RATIO = 3.0
ATTACKS = {
    "capability-sets": ("api.capability_sets", "422"),
    "header-without-end": ("sockets.header_without_end", "chunks"),
    "header-lines": ("sockets.header_lines", "chunks"),
    "pipelined-requests": ("sockets.pipelined_requests", "chunks"),
    "pipelined-pages": ("sockets.pipelined_pages", "chunks"),
    "small-chunks": ("sockets.small_chunks", "chunks"),
    "many-headers": ("sockets.many_headers", "sent"),
    "unread-answers": ("sockets.unread_answers", "asked"),
    "web-socket-frames": ("sockets.web_socket_frames", "frames"),
    "web-socket-handshakes": ("sockets.web_socket_handshakes", "answered"),
    "fresh-queues": ("api.fresh_queues", "200"),
    "large-jobs": ("api.large_jobs", "200"),
    "large-results": ("api.large_results", "201"),
    "large-payloads": ("api.large_payloads", "201"),
    "hanging-webhooks": ("api.hanging_webhooks", "called"),
    "unfinished-bodies": ("sockets.unfinished_bodies", "held"),
    "half-sent-heads": ("sockets.half_sent_heads", "held"),
    "idle-connections": ("sockets.idle_connections", "held"),
    "searches": ("api.searches", "sent"),
    "slow-reads": ("api.slow_reads", "200"),
    "node-user": ("keys.node_user", "refused"),
    "foreign-writes": ("keys.foreign_writes", "written"),
    "guessed-passwords": ("pages.guessed_passwords", "200"),
    "streams-and-waits": ("api.streams_and_waits", "held"),
    "repeated-cancels": ("api.repeated_cancels", "200"),
    "unknown-objects": ("pages.unknown_objects", "404"),
    "forged-addresses": ("pages.forged_addresses", "200"),
    "many-viewers": ("pages.many_viewers", "held"),
    "many-requests": ("api.many_requests", "200"),
    "large-batches": ("api.large_batches", "sent"),
    "distinct-keys": ("api.distinct_keys", "200"),
    "fresh-keys": ("api.fresh_keys", "201"),
    "uploads": ("api.uploads", "201"),
}
"""By the function that attacks (bench/attacks/), and what it must have done: else it has not attacked."""
KINDS = ("requests", "tasks")
TASK = {"task_type": "echo", "parameters": {"hello": "world"}}


@dataclass
class Figures:
    """Milliseconds of one kind, by round."""

    quiet: list[list[float]] = field(default_factory=list)
    attacked: list[list[float]] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)  # by the attacks of all rounds

    def p(self, share: float) -> tuple[float, float, float]:
        """Without, with, and the median of the ratios of rounds."""
        pairs = [
            (percentile(before, share), percentile(during, share))
            for before, during in zip(self.quiet, self.attacked, strict=True)
        ]
        without, under = (median(side) for side in zip(*pairs, strict=True))
        return without, under, median(during / before for before, during in pairs)


def measure(port: int, token: str, seconds: float, *, wait: bool = True) -> dict[str, list[float]]:
    """One client of the other project: submits a task and waits for its end, then reads it four times."""
    took: dict[str, list[float]] = {kind: [] for kind in KINDS}
    end = time.monotonic() + seconds
    with closing(Client(port, {"Authorization": f"Bearer {token}"})) as client:
        while time.monotonic() < end:
            begun = time.perf_counter()
            status, body = client.call("POST", "/api/v1/tasks?wait=30" if wait else "/api/v1/tasks", TASK)
            took["tasks"].append((time.perf_counter() - begun) * 1000)
            if status != 201:
                continue  # its time counts
            path = f"/api/v1/tasks/{json.loads(body)['task_id']}"
            for _ in range(4):
                begun = time.perf_counter()
                client.call("GET", path)
                took["requests"].append((time.perf_counter() - begun) * 1000)
    return {kind: found or [seconds * 1000] for kind, found in took.items()}


@contextmanager
def attack(name: str, attacked: Attacked) -> Iterator[Counter[str]]:
    """What it has done is known at its end. Raises RuntimeError if it did not attack."""
    did: Counter[str] = Counter()
    function, proof = ATTACKS[name]
    argv = guarded([sys.executable, "-m", "bench.attacks", function, proof], dies_with=signal.SIGKILL)
    process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin
    assert process.stdout
    try:
        process.stdin.write(json.dumps(dataclasses.asdict(attacked)) + "\n")
        process.stdin.flush()
        process.stdout.readline()  # it has begun, has failed, or is late
        yield did
        if process.poll() is not None:
            raise RuntimeError(f"the attack {name} ended with {process.returncode}")
        did.update(json.loads(process.communicate(timeout=60)[0]))
        if not did[proof]:
            raise RuntimeError(f"the attack {name} did not attack: it needs {proof}, and did {did}")
    finally:
        process.kill()
        process.wait()


def abuse(names: list[str], *, rounds: int, seconds: float, history: int) -> Iterator[Section]:
    with (
        private_valkey() as valkey,
        private_postgres() as postgres,
        tempfile.TemporaryDirectory(prefix="dalston-bench-", ignore_cleanup_errors=True) as folder,
    ):
        made = Rounds(valkey, postgres, history=history, folder=Path(folder))
        found = {name: {kind: Figures() for kind in KINDS} for name in names}
        for number in range(rounds):
            for name in names:
                _round(made, name, found[name], seconds)
                print(f"  round {number + 1}, {name}: {_short(found[name])}", flush=True)
    for kind in KINDS:
        yield _section(kind, found, rounds)


def _round(made: Rounds, name: str, figures: dict[str, Figures], seconds: float) -> None:
    with made.installation() as installation:
        port, token = installation.web.port, installation.other
        measure(port, token, 1.0)  # late imports, first connections
        quiet = measure(port, token, seconds)
        with attack(name, _target(installation)) as did:
            time.sleep(min(2.0, seconds / 2))  # until it is at full strength
            attacked = measure(port, token, seconds)
    for kind in KINDS:
        figures[kind].quiet.append(quiet[kind])
        figures[kind].attacked.append(attacked[kind])
        figures[kind].did.update(did)


def _target(of: Installation) -> Attacked:
    return Attacked(of.web.port, of.attacker, of.cookie, of.redis_url, of.node_url)


def _short(figures: dict[str, Figures]) -> str:
    def last(kind: str) -> str:
        quiet, attacked = figures[kind].quiet[-1], figures[kind].attacked[-1]
        return f"{kind} {percentile(quiet, 0.5):.1f} -> {percentile(attacked, 0.5):.1f} ms"

    return ", ".join(last(kind) for kind in KINDS)


_TITLES = {
    "requests": "GET /tasks/{id} of the other project",
    "tasks": "A task of the other project, submit to completed (`?wait`)",
}


def _section(kind: str, found: dict[str, dict[str, Figures]], rounds: int) -> Section:
    section = Section(
        f"{_TITLES[kind]}: milliseconds without and with the attack (median of {rounds} rounds)",
        ["", "p50 without", "with", "ratio", "p99 without", "with", "ratio"],
    )
    for name, figures in found.items():
        did = ", ".join(f"{count:,} × {what}" for what, count in sorted(figures[kind].did.items()))
        section.notes.append(f"{name}: {did}")
        half, most = figures[kind].p(0.5), figures[kind].p(0.99)
        cells = [f"{half[0]:.1f}", f"{half[1]:.1f}", f"{half[2]:.2f}", f"{most[0]:.1f}", f"{most[1]:.1f}"]
        section.rows.append([name, *cells, f"{most[2]:.2f}"])
        text = f"{name}: {kind}, p50 with the attack {half[2]:.2f} × that without (target {MAX_RATIO:g})"
        section.targets.append(Target(text, half[2] <= MAX_RATIO))
    return section


def main(arguments: list[str] | None = None) -> int:
    command = Command("abuse", __doc__)
    command.add_list("only", list(ATTACKS), "which attacks")
    command.add_argument("--rounds", type=int, help="of each attack, each on an installation of its own (3)")
    command.add_argument("--seconds", type=float, help="without, and with the attack, in a round (4)")
    options = command.parse(arguments)
    small = options.small
    run = Run("Postgres with fsync, Valkey with AOF everysec; a web process, an orchestrator and an engine")
    sections = abuse(
        options.only,
        rounds=options.rounds or (1 if small else 3),
        seconds=options.seconds or (0.5 if small else 4),
        history=2_000 if small else 200_000,
    )
    for section in sections:
        run.add(section)
    run.finish(options.json)
    return 0 if small or run.kept_all_targets else 1


if __name__ == "__main__":
    raise SystemExit(main())
