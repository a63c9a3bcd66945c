"""Samples: 16 kHz mono, 16 bits, as the engines pass them on in FLAC files."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

RATE = 16_000
Samples = NDArray[np.int16]


class FlacWriter:
    """Writes samples to a FLAC file as they come."""

    def __init__(self, path: Path) -> None:
        self._container = av.open(str(path), "w", format="flac")
        self._stream = self._container.add_stream("flac", rate=RATE)
        self._stream.layout = "mono"
        self._stream.format = "s16"
        self._stream.codec_context.thread_count = 1
        self.count = 0

    def write(self, samples: Samples) -> None:
        for start in range(0, len(samples), RATE):  # a frame holds at most 65 535 samples
            part = np.ascontiguousarray(samples[start : start + RATE])
            frame = av.AudioFrame.from_ndarray(part[None], format="s16", layout="mono")
            frame.rate = RATE
            frame.pts = self.count
            self.count += len(part)
            self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        self._container.mux(self._stream.encode(None))
        self._container.close()


def write(path: Path, samples: Samples) -> None:
    writer = FlacWriter(path)
    writer.write(samples)
    writer.close()


def read(path: Path) -> Samples:
    """All samples of a file that `prepare` wrote: one chunk, DALSTON_AUDIO_CHUNK_S long, of long recordings more."""
    parts: list[Samples] = []
    with av.open(str(path), format="flac") as container:
        container.streams.audio[0].codec_context.thread_count = 1
        parts.extend(frame.to_ndarray().reshape(-1).astype(np.int16, copy=False) for frame in container.decode(audio=0))
    return np.concatenate(parts) if parts else np.zeros(0, np.int16)
