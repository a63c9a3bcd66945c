"""faster-whisper on a GPU: the model is loaded once, windows are recognised in batches."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from faster_whisper import BatchedInferencePipeline, WhisperModel

from engines.audio.samples import Samples
from engines.audio.speech import Window
from engines.sdk.models import models_dir

from .batches import in_batches
from .recogniser import Heard, Word

log = logging.getLogger("engine")

FIRST_BATCH = 8


class Whisper:
    languages = None
    longest_s = 28.0  # its own window is 30 s

    def __init__(self, size: str) -> None:
        """`size`: such as large-v3. A folder of this model in the model folder is used; else the library fetches it."""
        self.name = f"whisper-{size}"
        folder = Path(models_dir(), self.name)
        model = WhisperModel(str(folder) if folder.is_dir() else size, device="cuda", compute_type="float16")
        self._pipeline = BatchedInferencePipeline(model)
        self._batch = int(os.environ.get("WHISPER_BATCH", FIRST_BATCH))

    def recognise(
        self,
        samples: Samples,
        windows: Sequence[Window],
        language: str | None,
        *,
        words: bool,
        tick: Callable[[], None],
    ) -> Iterator[Heard]:
        audio = (samples / 32768).astype(np.float32)

        def run(batch: Sequence[Window]) -> list[Heard]:
            tick()
            clips = [{"start": window.start, "end": window.end} for window in batch]
            segments, _ = self._pipeline.transcribe(
                audio,
                language=language,
                batch_size=len(batch),
                word_timestamps=words,
                vad_filter=False,
                clip_timestamps=clips,
                without_timestamps=False,
            )
            heard: list[Heard] = []
            for segment in segments:
                tick()
                found = tuple(
                    Word(word.word.strip(), word.start, word.end, round(word.probability, 3))
                    for word in segment.words or ()
                )
                window = Window(segment.start, segment.end, ())
                chance = round(float(np.exp(segment.avg_logprob)), 3)
                heard.append(Heard(window, segment.text.strip(), chance, found if words else None))
            return heard

        for heard, fitted in in_batches(windows, self._batch, run):
            if fitted < self._batch:
                log.warning("the GPU's memory is full: batches of %d instead of %d from now on", fitted, self._batch)
                self._batch = fitted
            yield from heard
