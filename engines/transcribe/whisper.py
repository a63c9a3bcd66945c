"""faster-whisper on a GPU: the model is loaded once, windows are recognised in batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engines.audio.samples import Samples
from engines.audio.speech import Span, Window
from engines.sdk.models import models_dir

from .batches import in_batches
from .recogniser import Heard, Word

log = logging.getLogger("engine")


def load_pipeline(name: str, size: str) -> Any:
    """faster-whisper's pipeline. A folder of the model in the model folder is used; else the library fetches it.
    Raises ImportError where the library is not installed."""
    from faster_whisper import BatchedInferencePipeline, WhisperModel

    folder = Path(models_dir(), name)
    model = WhisperModel(str(folder) if folder.is_dir() else size, device="cuda", compute_type="float16")
    return BatchedInferencePipeline(model)


class Whisper:
    languages = None
    longest_s = 28.0  # its own window is 30 s

    def __init__(self, name: str, pipeline: Any, batch: int) -> None:
        """`batch`: windows at once; fewer from then on where they don't fit into the GPU's memory."""
        self.name = name
        self._pipeline, self._batch = pipeline, batch

    def recognise(
        self,
        samples: Samples,
        windows: Sequence[Window],
        language: str | None,
        *,
        words: bool,
        tick: Callable[[], None],
    ) -> Iterator[Heard]:
        audio = samples / np.float32(32768)
        found = language

        def run(batch: Sequence[Window]) -> list[Heard]:
            nonlocal found
            tick()
            clips = [{"start": window.start, "end": window.end} for window in batch]
            segments, info = self._pipeline.transcribe(
                audio,
                language=found,
                batch_size=len(batch),
                word_timestamps=words,
                vad_filter=False,
                clip_timestamps=clips,
                without_timestamps=False,
            )
            heard: list[Heard] = []
            for segment in segments:
                tick()
                heard.append(heard_of(segment, info.language, words=words))
            found = info.language  # once for the chunk: in a short batch it would be a guess
            return heard

        for heard, fitted in in_batches(windows, self._batch, run):
            if fitted < self._batch:
                log.warning("the GPU's memory is full: batches of %d instead of %d from now on", fitted, self._batch)
                self._batch = fitted
            yield from heard


def heard_of(segment: Any, language: str, *, words: bool) -> Heard:
    """A segment of faster-whisper. It has times of its own: all of it counts as speech. With times of words its numbers
    are numpy's, which no result may hold."""
    timed = tuple(
        Word(word.word.strip(), float(word.start), float(word.end), round(float(word.probability), 3))
        for word in segment.words or ()
    )
    start, end = float(segment.start), float(segment.end)
    window = Window(start, end, (Span(start, end),))
    confidence = round(float(np.exp(segment.avg_logprob)), 3)
    return Heard(window, segment.text.strip(), confidence, timed if words else None, language)
