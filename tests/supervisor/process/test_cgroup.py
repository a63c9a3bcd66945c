"""Evidence for "out of memory", from both versions of cgroups."""

from pathlib import Path

from supervisor.process.cgroup import MemoryEvents, OomLedger


def test_version_2(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("0::/system.slice/dalston.service\n")
    events = tmp_path / "system.slice" / "dalston.service" / "memory.events"
    events.parent.mkdir(parents=True)
    events.write_text("low 0\nhigh 0\nmax 3\noom 1\noom_kill 2\noom_group_kill 0\n")
    memory = MemoryEvents(tmp_path, own)
    assert memory.oom_kills() == 2
    events.write_text("oom_kill 3\n")
    assert memory.oom_kills() == 3


def test_version_1(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("4:memory:/docker/abc\n1:cpu:/\n0::/\n")
    control = tmp_path / "memory" / "docker" / "abc" / "memory.oom_control"
    control.parent.mkdir(parents=True)
    control.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 5\n")
    assert MemoryEvents(tmp_path, own).oom_kills() == 5


def test_without_a_counter_there_are_no_oom_kills(tmp_path: Path) -> None:
    assert MemoryEvents(tmp_path, tmp_path / "none").oom_kills() == 0


def test_a_rise_of_the_counter_explains_one_death_and_only_a_recent_one(tmp_path: Path) -> None:
    own, events = tmp_path / "cgroup", tmp_path / "memory.events"
    own.write_text("0::/\n")
    events.write_text("oom_kill 7\n")
    ledger = OomLedger(MemoryEvents(tmp_path, own))
    assert ledger.claim(0.0) == 0  # kills before the start do not count
    events.write_text("oom_kill 8\n")
    ledger.poll(1.0)
    assert ledger.claim(1.1) == 1
    assert ledger.claim(1.2) == 0  # no evidence for a second SIGKILL
    events.write_text("oom_kill 9\n")
    ledger.poll(10.0)
    assert ledger.claim(100.0) == 0  # too old
