"""The benchmarks run, on a small scale and without peers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.recordings import moonshine_folder

ROOT = Path(__file__).resolve().parent.parent.parent
NO_PEERS = ("--peers", "")


def bench(name: str, *arguments: str, timeout: float = 150) -> str:
    """`./dev bench NAME` without the installation."""
    done = subprocess.run(
        [sys.executable, f"bench/{name}.py", "--small", *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_broker_bench_measures_every_section_and_writes_json(tmp_path: Path) -> None:
    output = bench("broker", *NO_PEERS, "--json", str(tmp_path / "figures.json"))
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert len(figures["sections"]) == 4
    for section in figures["sections"]:
        assert section["title"] in output
        assert section["rows"][0][1] not in ("", "-"), f"{section['title']}: nothing was measured: {section['notes']}"
        assert not [note for note in section["notes"] if "round " in note.partition(":")[0]], "a round failed"


def test_memory_and_keys_return_after_draining(tmp_path: Path) -> None:
    """A target that does not depend on the speed of the machine."""
    bench("broker", *NO_PEERS, "--only", "memory", "--json", str(tmp_path / "figures.json"))
    [section] = json.loads((tmp_path / "figures.json").read_text())["sections"]
    assert all(target["kept"] for target in section["targets"]), section


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "bench/broker.py", "--peers", "sidekiq"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "unknown: sidekiq; known are celery, rq" in done.stderr


@pytest.mark.slow
def test_sizing_bench_measures_each_process_and_a_job(tmp_path: Path) -> None:
    bench("sizing", "--json", str(tmp_path / "figures.json"))
    processes, sizes, cpu = json.loads((tmp_path / "figures.json").read_text())["sections"]
    assert [row[0] for row in processes["rows"]] == ["web", "orchestrator", "housekeeping", "node"]
    assert all(float(row[1].replace(",", "")) > 0 for section in (processes, sizes, cpu) for row in section["rows"])


@pytest.mark.slow
def test_pipeline_bench_takes_tasks_to_completed() -> None:
    assert "tasks/s through Postgres" in bench("pipeline", *NO_PEERS)


@pytest.mark.slow
@pytest.mark.timeout(300)  # it starts two web processes and an orchestrator
def test_order_bench_measures_every_part(tmp_path: Path) -> None:
    """It may miss its times on a busy machine: only what it has measured is checked, and the memory."""
    bench("order", "--json", str(tmp_path / "figures.json"), timeout=280)
    idle, churn, memory, submit, refill = json.loads((tmp_path / "figures.json").read_text())["sections"]
    assert len(idle["rows"]) == 1
    assert len(churn["rows"]) == len(submit["rows"]) == 2
    assert memory["targets"][0]["kept"], memory
    assert len(refill["rows"]) == 5


@pytest.mark.slow
def test_dashboard_bench_sees_every_change_arrive(tmp_path: Path) -> None:
    bench("dashboard", "--json", str(tmp_path / "figures.json"))
    screens, cost, paints = json.loads((tmp_path / "figures.json").read_text())["sections"]
    assert screens["targets"][1]["kept"], screens
    assert all(row[2] != "0" for row in cost["rows"])
    assert len(paints["rows"]) == len(cost["rows"])


@pytest.mark.slow
@pytest.mark.timeout(200)  # it starts three web processes
def test_api_bench_measures_both_routes_and_the_batch(tmp_path: Path) -> None:
    bench("api", "--json", str(tmp_path / "figures.json"), timeout=180)
    requests, batch = json.loads((tmp_path / "figures.json").read_text())["sections"]
    assert [row[0] for row in requests["rows"]][2:] == ["POST /tasks", "GET /tasks/{id}"]
    assert float(batch["rows"][0][1].replace(",", "")) > 0


@pytest.mark.slow
@pytest.mark.timeout(300)  # it starts a web process, an orchestrator and four engines
def test_transcription_bench_measures_both_parts(tmp_path: Path) -> None:
    """It may miss its times on a busy machine: only what it has measured is checked."""
    moonshine_folder()
    bench("transcription", "--json", str(tmp_path / "figures.json"), timeout=280)
    overhead, hour = json.loads((tmp_path / "figures.json").read_text())["sections"]
    assert [row[0] for row in overhead["rows"]] == ["the engines' own work", "upload to transcript, over HTTP", "added"]
    assert [row[0] for row in hour["rows"]] == ["one engine", "two engines"]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_recovery_bench_runs(tmp_path: Path) -> None:
    """It may miss its times on a busy machine: only its output is checked."""
    table = tmp_path / "figures.json"
    argv = [sys.executable, "bench/recovery.py", "--small", "--only", "killed,stopped,spam", "--json", str(table)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "kill -9 of an engine mid-task" in table.read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)  # it starts a whole installation for each attack
def test_abuse_bench_runs_attacks_of_each_kind(tmp_path: Path) -> None:
    """It may miss its targets on a busy machine: only that each attack ran, and what was measured."""
    table = tmp_path / "figures.json"
    attacks = ["large-jobs", "pipelined-requests", "guessed-passwords", "node-user"]
    bench("abuse", "--only", ",".join(attacks), "--json", str(table), timeout=280)
    for section in json.loads(table.read_text())["sections"]:
        assert [row[0] for row in section["rows"]] == attacks
        assert all(float(cell) > 0 for row in section["rows"] for cell in row[1:])
