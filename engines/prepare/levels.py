"""Levels: the loudness along the time, for cuts in silence and for the waveform. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engines.audio.samples import RATE, Samples

STEP = RATE // 20  # samples of one level: 50 ms
STEP_S = STEP / RATE
QUIET_STEPS = 6  # a cut has 0.3 s of the least sound around it
PEAKS = 600
Levels = NDArray[np.float32]


def levels_of(samples: Samples) -> tuple[Levels, Levels]:
    """Mean square and peak of each step; what is left of a last one counts as a step."""
    count = math.ceil(len(samples) / STEP)
    padded = np.zeros(count * STEP, np.float32)
    padded[: len(samples)] = samples
    steps = padded.reshape(count, STEP)
    return np.mean(steps * steps, axis=1, dtype=np.float32), np.max(np.abs(steps), axis=1, initial=0.0)


def cut_in_silence(energy: Levels, duration: float, longest: float) -> list[tuple[float, float]]:
    """Chunks, as (start, end) in seconds: of about the same length, at most `longest`, cut where it is quietest near
    the even cut. They cover everything, once."""
    radius = min(30.0, longest / 5)
    count = max(1, math.ceil(duration / max(1.0, longest - 2 * radius))) if duration > longest else 1
    cuts = [0.0]
    smooth = np.convolve(energy, np.ones(QUIET_STEPS, np.float32), mode="same") if count > 1 else energy
    for number in range(1, count):
        even = duration * number / count
        first, last = int((even - radius) / STEP_S), int((even + radius) / STEP_S) + 1
        near = smooth[max(0, first) : last]
        # The nearest of the quietest moments: in digital silence all are alike.
        quietest = np.flatnonzero(near <= near.min()) + max(0, first)
        step = quietest[np.abs(quietest * STEP_S - even).argmin()]
        cuts.append(round(float(step) * STEP_S, 3))
    return list(zip(cuts, [*cuts[1:], duration], strict=True))


def peaks(highest: Sequence[Levels]) -> list[int]:
    """The waveform of all channels together: at most PEAKS numbers from 0 to 100, relative to the loudest moment."""
    if not highest or not len(highest[0]):
        return []
    loudest = np.maximum.reduce(list(highest))
    edges = np.linspace(0, len(loudest), min(PEAKS, len(loudest)), endpoint=False).astype(int)
    reduced = np.maximum.reduceat(loudest, edges)
    return [int(value) for value in np.rint(100 * reduced / max(1.0, float(reduced.max())))]
