"""The transcribe engine: speech in a chunk of audio to text, by the model that the task asks for."""

from __future__ import annotations

from typing import Any

from dalston_queue.transcription.speech_models import AUTO
from engines.audio.samples import RATE, Samples, read
from engines.audio.speech import find_speech, pack
from engines.sdk import Engine, Reject, Task
from engines.transcribe.loading import Models
from engines.transcribe.recogniser import Recogniser
from engines.transcribe.results import segments_of


class Transcribe(Engine):
    def load(self) -> None:
        self._models = Models(self.loading)
        self.capabilities = self._models.capabilities
        self.status = f"ready, {self._models.missing}" if self._models.missing else "ready"

    def run(self, task: Task) -> Any:
        wanted = task.parameters
        name, language = wanted.get("model") or AUTO, wanted.get("language")
        model = self._models.get(name)
        if model is None:
            return Reject(f"this engine has no model {name!r}; it has {', '.join(self._models.names)}")
        if language and model.languages is not None and language not in model.languages:
            return Reject(f"{model.name} knows {', '.join(model.languages)} only, not {language!r}")
        samples = read(task.artifact(wanted["audio"]))
        offset, words = float(wanted.get("offset", 0.0)), bool(wanted.get("words"))
        segments, found = transcribe(samples, model, task, offset=offset, language=language, words=words)
        return {
            "segments": segments,
            "language": language or (model.languages[0] if model.languages else found),
            "model": model.name,
            "word_times": "model" if any(segment["words"] for segment in segments) else "none",
        }


def transcribe(
    samples: Samples, model: Recogniser, task: Task, *, offset: float, language: str | None, words: bool
) -> tuple[list[dict[str, Any]], str | None]:
    """Segments, and the language that the model found."""
    duration = len(samples) / RATE
    task.progress(0.0, "finding speech")
    windows = pack(find_speech(samples, task.check), model.longest_s, duration)
    segments: list[dict[str, Any]] = []
    found = None
    for heard in model.recognise(samples, windows, language, words=words, tick=task.check):
        segments += segments_of(heard, offset, words=words)
        found = found or heard.language
        task.progress(heard.window.end / duration, f"{heard.window.end:.0f} of {duration:.0f} s of audio")
    return segments, found


if __name__ == "__main__":
    Transcribe().serve()
