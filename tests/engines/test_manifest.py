"""engine.yaml: what is accepted, and that every refusal names the file and the field."""

from pathlib import Path

import pytest

from engines.sdk.manifest import ManifestError, Probe, read_manifest

GOOD = "id: demo\nstage: echo\ncommand: [python, engine.py]\n"


def write(folder: Path, text: str) -> Path:
    file = folder / "engine.yaml"
    file.write_text(text)
    return file


def test_a_small_manifest_has_the_documented_defaults(tmp_path: Path) -> None:
    manifest = read_manifest(write(tmp_path, GOOD))
    assert (manifest.queues, manifest.capacity, manifest.gpu, manifest.watchdog) == (("echo",), 1, None, None)
    assert manifest.prefetch == 1
    assert manifest.probe == Probe(every=60, timeout=5)
    assert manifest.folder == str(tmp_path)


def test_a_folder_stands_for_its_engine_yaml(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    assert read_manifest(tmp_path).id == "demo"


@pytest.mark.parametrize(
    ("text", "field", "what"),
    [
        (GOOD + "capacity: many\n", "capacity", "expected `int`, got `str`"),
        (GOOD + "capacity: 0\n", "capacity", ">= 1"),
        (GOOD + "prefetch: -1\n", "prefetch", ">= 0"),
        (GOOD + "prefetch: 101\n", "prefetch", "<= 100"),
        (GOOD + "gpu: {vram: 3}\n", "gpu.vram", "unknown field"),
        (GOOD + "colour: red\n", "colour", "unknown field"),
        (GOOD + "watchdog: -1\n", "watchdog", "> 0"),
        (GOOD + "env: {DALSTON_ENGINE_ID: x}\n", "env", "set by the supervisor"),
        (GOOD + 'env: {A: "x\\0y"}\n', "env", "NUL"),
        (GOOD + "env: {A=B: x}\n", "env", "no name of a variable"),
        (GOOD + 'probe: {command: ["x\\0y"]}\n', "probe.command", "NUL"),
        (GOOD + "probe: {command: [a], url: http://localhost/}\n", "probe", "either"),
        (GOOD + "stages: [echo]\n", "stage", "either"),
        (GOOD + "capabilities: [gpu, gpu]\n", "capabilities", "twice"),
        ("stage: echo\ncommand: [x]\n", "id", "missing required field"),
        ("id: Demo\nstage: echo\ncommand: [x]\n", "id", "must match"),
        ("id: demo\nstage: echo\ncommand: []\n", "command", "at least one"),
    ],
)
def test_a_refusal_names_the_file_and_the_field(tmp_path: Path, text: str, field: str, what: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(ManifestError) as refused:
        read_manifest(file)
    assert f"{file}: field {field}: " in str(refused.value)
    assert what in str(refused.value)


@pytest.mark.parametrize("text", ["- a\n- b\n", "id: [", "\x00", "id: 2026-13-45\n", "[" * 5000])
def test_what_is_no_mapping_is_refused_with_the_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(ManifestError, match=r"engine\.yaml: "):
        read_manifest(write(tmp_path, text))


def test_a_missing_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"engine\.yaml: can't be read: No such file"):
        read_manifest(tmp_path)
