"""The transcribe engine: chooses the model, reports the progress by audio position, stops when cancelled."""

import time
from pathlib import Path
from typing import Any

import pytest

from dalston_queue.artifacts import open_store
from engines.audio.samples import RATE, write
from engines.sdk import Cancelled, Done, Reject
from engines.sdk.testing import TestRun, run_task
from engines.transcribe import loading
from engines.transcribe.engine import Transcribe
from tests.engines.transcribe.decoding import decoded
from tests.support import keeps_time
from tests.tools.recordings import moonshine_folder, recording, word_error_rate

BECKETT = "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."


class Loaded(Transcribe):
    """Loads once for all tests."""

    def __init__(self) -> None:
        super().load()

    def load(self) -> None: ...


@pytest.fixture(scope="module")
def engine() -> Transcribe:
    moonshine_folder()
    return Loaded()


def transcribe(engine: Transcribe, folder: Path, name: str = "beckett.wav", **fields: Any) -> TestRun:
    samples = decoded(recording(name))[: int(fields.pop("seconds", 60) * RATE)]
    write(folder / "a.flac", samples)
    store = folder / "store"
    cancel_after = fields.pop("cancel_after", None)
    reference = open_store(store.as_uri()).put_path(folder / "a.flac").ref
    parameters = {"audio": reference, "offset": 10.0, "channel": 0, "words": True, **fields}
    return run_task(engine, parameters, queue="transcribe", artifacts=store, cancel_after=cancel_after)


def test_auto_is_the_best_model_and_progress_follows_the_audio(engine: Transcribe, tmp_path: Path) -> None:
    run = transcribe(engine, tmp_path, model="auto")
    assert isinstance(run.outcome, Done), run.outcome
    result = run.outcome.result
    assert (result["model"], result["language"], result["word_times"]) == ("moonshine-tiny", "en", "none")
    assert word_error_rate(" ".join(segment["text"] for segment in result["segments"]), BECKETT) <= 0.1
    assert run.progress[-1][1].endswith("of 10 s of audio")
    assert engine.capabilities == ("moonshine-tiny", "pocketsphinx-en") and engine.status == "ready"


def test_a_named_model_is_used_and_one_shape_serves_all(engine: Transcribe, tmp_path: Path) -> None:
    results = [
        transcribe(engine, tmp_path, model=model, seconds=3).outcome.result
        for model in ("moonshine-tiny", "pocketsphinx-en")
    ]
    assert [result["model"] for result in results] == ["moonshine-tiny", "pocketsphinx-en"]
    assert [result["word_times"] for result in results] == ["none", "model"]
    assert {frozenset(result) for result in results} == {frozenset(results[0])}
    assert len({frozenset(segment) for result in results for segment in result["segments"]}) == 1
    word = results[1]["segments"][0]["words"][0]
    assert 10.0 < word["start"] < word["end"] < 20.0 and not word["interpolated"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [({"model": "whisper-large-v3"}, "no model 'whisper-large-v3'"), ({"language": "de"}, "knows en only, not 'de'")],
)
def test_what_no_model_here_can_do_is_rejected(
    engine: Transcribe, tmp_path: Path, fields: dict[str, str], problem: str
) -> None:
    outcome = transcribe(engine, tmp_path, **fields).outcome
    assert isinstance(outcome, Reject) and problem in outcome.message


@pytest.mark.parametrize("model", ["moonshine-tiny", "pocketsphinx-en"])
def test_a_cancel_is_obeyed_within_a_second(engine: Transcribe, tmp_path: Path, model: str) -> None:
    def once() -> float:
        started = time.monotonic()
        run = transcribe(engine, tmp_path, "two_cities.wav", model=model, cancel_after=0.3)
        assert run.outcome == Cancelled()
        return time.monotonic() - started - 0.3

    keeps_time(1.0, once)


def test_without_a_network_pocketsphinx_serves_and_the_state_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DALSTON_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1")
    monkeypatch.setattr(loading, "RETRY_S", 3600.0)
    engine = Transcribe()
    run = transcribe(engine, tmp_path, model="auto", seconds=3)
    assert run.outcome.result["model"] == "pocketsphinx-en"
    assert engine.capabilities == ("pocketsphinx-en",)
    assert engine.status.startswith("ready, without moonshine-tiny: @moonshine-ai/moonshine-js@0.1.29 can't be fetched")
