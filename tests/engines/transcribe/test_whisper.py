"""Whisper by the recogniser's interface. The pipeline of faster-whisper needs a model and CUDA, which no machine of the
tests has: a stand-in gives segments as faster-whisper 1.2 does."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest

from dalston_queue.artifacts import open_store
from dalston_queue.transcription.formats import openai_verbose_json
from engines.audio.samples import RATE, write
from engines.audio.speech import Span, Window
from engines.merge.joining import transcript
from engines.prepare.planning import needs
from engines.sdk import BrokenConfigError, Done
from engines.sdk.models import FetchError
from engines.sdk.testing import run_task
from engines.transcribe import loading, whisper
from engines.transcribe.engine import Transcribe
from engines.transcribe.whisper import Whisper
from tests.engines.transcribe.decoding import decoded
from tests.tools.recordings import recording

TEXT = " Le chat dort. Le chien aussi."


class Pipeline:
    """Hears the same French in every clip, and finds the language itself unless it gets one. `room`: clips at once."""

    def __init__(self, room: int = 99) -> None:
        self.room = room
        self.languages: list[str | None] = []

    def transcribe(self, _audio: Any, **options: Any) -> tuple[list[Any], Any]:
        clips: Sequence[dict[str, float]] = options["clip_timestamps"]
        if len(clips) > self.room:
            raise RuntimeError("CUDA failed with error out of memory")
        self.languages.append(options["language"])
        segments = []
        for clip in clips:
            # faster-whisper 1.2.1 gives numbers of numpy with times of words, and only then.
            number = np.float64 if options["word_timestamps"] else float
            start, end = number(clip["start"]), number(clip["end"])
            word = SimpleNamespace(word=" Le", start=start, end=end, probability=np.float64(0.91239))
            timed = [word] if options["word_timestamps"] else None
            segments.append(SimpleNamespace(start=start, end=end, text=TEXT, avg_logprob=-0.1, words=timed))
        return segments, SimpleNamespace(language=options["language"] or "fr")


@pytest.fixture
def pipeline(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    found = Pipeline()
    monkeypatch.setattr(whisper, "load_pipeline", lambda *_: found)
    return found


def transcribed(folder: Path, **fields: Any) -> dict[str, Any]:
    write(folder / "a.flac", decoded(recording("beckett.wav"))[: 5 * RATE])
    store = folder / "store"
    reference = open_store(store.as_uri()).put_path(folder / "a.flac").ref
    outcome = run_task(Transcribe(), {"audio": reference, "offset": 100.0, **fields}, artifacts=store).outcome
    assert isinstance(outcome, Done), outcome
    result: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(outcome.result))
    return result


@pytest.mark.usefixtures("pipeline")
def test_without_words_its_segments_are_sentences_and_its_language_is_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_MODEL", "large-v3")
    result = transcribed(tmp_path)
    first, second, *_ = result["segments"]
    assert (first["text"], second["text"]) == ("Le chat dort.", "Le chien aussi.")
    assert 100.0 <= first["start"] < first["end"] <= second["start"] < second["end"] <= 105.0
    assert first["words"] is None and first["confidence"] == 0.905
    assert (result["language"], result["model"], result["word_times"]) == ("fr", "whisper-large-v3", "none")
    parts = [{"channel": 0, "transcribe": "transcribe", "align": None}]
    document = transcript(parts, {"transcribe": result}, duration=105.0, channels=1)
    assert document["language"] == openai_verbose_json(document)["language"] == "fr"


@pytest.mark.usefixtures("pipeline")
def test_with_words_they_have_its_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHISPER_MODEL", "large-v3")
    result = transcribed(tmp_path, words=True, language="fr")
    assert result["word_times"] == "model"
    word = result["segments"][0]["words"][0]
    assert word["word"] == "Le" and word["confidence"] == 0.912 and 100.0 <= word["start"] < word["end"] <= 105.0


def test_a_language_is_found_once_for_all_batches_of_a_chunk() -> None:
    pipeline = Pipeline(room=2)
    windows = [Window(start, start + 1.0, (Span(start, start + 1.0),)) for start in range(5)]
    model = Whisper("whisper-tiny", pipeline, 8)
    heard = list(model.recognise(np.zeros(5 * RATE, np.int16), windows, None, words=False, tick=lambda: None))
    assert {each.language for each in heard} == {"fr"} and [each.window.start for each in heard] == [0, 1, 2, 3, 4]
    assert pipeline.languages == [None, "fr", "fr"]


@pytest.mark.usefixtures("pipeline")
def test_an_empty_name_means_no_whisper_in_every_respect(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, _: object) -> Path:
        raise FetchError(f"no {name} here")

    monkeypatch.setattr(loading, "fetched", missing)
    monkeypatch.setattr(loading, "RETRY_S", 3600.0)
    monkeypatch.setenv("WHISPER_MODEL", "")
    assert loading.Models(lambda _: None).capabilities == ("pocketsphinx-en",)
    monkeypatch.setenv("WHISPER_MODEL", "tiny")
    assert loading.Models(lambda _: None).capabilities == ("whisper-tiny", "multilingual")


@pytest.mark.usefixtures("pipeline")
def test_a_model_whose_name_is_no_capability_is_claimed_by_the_name_that_the_plan_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHISPER_MODEL", "distil-large-v3.5")
    models = loading.Models(lambda _: None)
    assert set(needs("whisper-distil-large-v3.5", None)) <= set(models.capabilities)
    result = transcribed(tmp_path, model="whisper-distil-large-v3.5")
    assert result["model"] == "whisper-distil-large-v3.5"


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize("batch", ["x", "0", "-1", "1.5", "257", "²"])
def test_a_wrong_batch_is_a_broken_configuration(monkeypatch: pytest.MonkeyPatch, batch: str) -> None:
    monkeypatch.setenv("WHISPER_MODEL", "tiny")
    monkeypatch.setenv("WHISPER_BATCH", batch)
    with pytest.raises(BrokenConfigError, match=f"WHISPER_BATCH is '{batch}'"):
        loading.Models(lambda _: None)
