"""Decoding: 16 kHz samples of each channel on disk, in memory only as they pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.audio.stream import AudioStream
from numpy.typing import NDArray

from engines.audio.samples import RATE, Samples

from .levels import STEP, Levels, levels_of
from .source import NONSENSE, Source

BLOCK = 20 * STEP  # samples written at once: a second
AT_ONCE = 4096  # samples resampled at once: a file may have one in each packet


@dataclass(frozen=True, slots=True)
class Channel:
    """One decoded channel: 16 kHz, 16 bits, in a file."""

    file: Path
    count: int  # samples
    energy: Levels
    highest: Levels

    @property
    def duration(self) -> float:
        return self.count / RATE

    def part(self, start: float, end: float) -> Samples:
        first, last = round(start * RATE), min(self.count, round(end * RATE))
        return np.fromfile(self.file, np.int16, last - first, offset=2 * first)


def decode(source: Source, folder: Path, tick: Callable[[float], None], *, separate: bool) -> list[Channel]:
    """All channels mixed to one, or each by itself. `tick` is called with the seconds so far. Raises Refused."""
    writers: list[_Writer] = []
    bad = packets = 0
    try:
        for packet in _packets(source):
            packets += 1
            try:
                frames = source.stream.decode(packet)
            except av.error.FFmpegError:
                bad += 1  # one bad packet is a click; too many are seen at the end
                continue
            for frame in frames:
                sound = as_floats(frame)
                if not separate:
                    sound = sound.mean(axis=0, keepdims=True)
                if not writers:
                    writers = [_Writer(folder / f"{number}.pcm") for number in range(len(sound))]
                    source.check_length(source.declared or 0.0, len(writers))
                if len(sound) != len(writers):
                    raise source.refuse(f"changes from {len(writers)} to {len(sound)} channels")
                for writer, samples in zip(writers, sound, strict=True):
                    writer.write(samples, frame.sample_rate)
                source.check_length(writers[0].seconds, len(writers))
            seconds = writers[0].seconds if writers else 0.0
            source.check_parts(packets, seconds)
            tick(seconds)
        channels = [writer.close() for writer in writers]
    finally:
        for writer in writers:
            writer.file.close()
    source.check_whole(channels[0].count / RATE if channels else 0.0, bad, packets)
    return channels


def _packets(source: Source) -> Iterator[av.Packet[AudioStream]]:
    source.stream.codec_context.thread_count = 1  # other engines want the other cores
    packets = source.container.demux(source.stream)
    while True:
        try:
            packet = next(packets)
        except IndexError:  # a stream that begins in the middle of the file, which PyAV does not know
            packets = source.container.demux(source.stream)
            continue
        except (StopIteration, av.error.FFmpegError, *NONSENSE):  # it ends here; how much is missing is seen at the end
            return
        yield packet


def as_floats(frame: av.AudioFrame) -> NDArray[np.float32]:
    """A row per channel, from -1 to 1."""
    array: NDArray[Any] = frame.to_ndarray()
    if not frame.format.is_planar:
        array = array.reshape(-1, frame.layout.nb_channels).T
    if array.dtype == np.uint8:
        sound: NDArray[Any] = (array.astype(np.float32) - 128) / 128
    elif array.dtype.kind == "i":
        sound = array.astype(np.float32) / 2.0 ** (8 * array.dtype.itemsize - 1)
    else:
        sound = np.clip(np.nan_to_num(array), -1.0, 1.0)
    return sound.astype(np.float32)


class _Writer:
    """Resamples one channel and writes it, in blocks of whole steps."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")
        self.count = 0
        self._path = path
        self._rate = 0
        self._resampler: av.AudioResampler | None = None
        self._frames: list[NDArray[np.float32]] = []  # that were not resampled yet
        self._in_frames = 0
        self._waiting: list[Samples] = []
        self._waits = 0
        self._energy: list[Levels] = []
        self._highest: list[Levels] = []

    def write(self, sound: NDArray[np.float32], rate: int) -> None:
        if rate != self._rate:  # some streams change it in the middle
            self._flush()
            self._rate, self._resampler = rate, av.AudioResampler("s16", "mono", RATE)
        self._frames.append(sound)
        self._in_frames += len(sound)
        if self._in_frames >= AT_ONCE:
            self._resample_frames()

    def close(self) -> Channel:
        self._flush()
        self._take(self._waits)
        self.file.close()
        empty = np.zeros(0, np.float32)
        energy, highest = (np.concatenate(parts or [empty]) for parts in (self._energy, self._highest))
        return Channel(self._path, self.count, energy, highest)

    @property
    def seconds(self) -> float:
        return self.count / RATE + (self._in_frames / self._rate if self._rate else 0.0)

    def _flush(self) -> None:
        self._resample_frames()
        if self._resampler is not None:
            self._resample(None)

    def _resample_frames(self) -> None:
        if not self._frames:
            return
        sound = np.concatenate(self._frames)
        self._frames, self._in_frames = [], 0
        frame = av.AudioFrame.from_ndarray(sound[None], format="fltp", layout="mono")
        frame.rate = self._rate
        self._resample(frame)

    def _resample(self, frame: av.AudioFrame | None) -> None:
        if self._resampler is None:
            return
        for part in self._resampler.resample(frame):
            samples = part.to_ndarray().reshape(-1).astype(np.int16, copy=False)
            self.count += len(samples)
            self._waiting.append(samples)
            self._waits += len(samples)
        if self._waits >= BLOCK:
            self._take(self._waits - self._waits % STEP)

    def _take(self, size: int) -> None:
        """Writes the first `size` of the waiting samples."""
        if not self._waits:
            return
        samples = np.concatenate(self._waiting)
        block, rest = samples[:size], samples[size:]
        self._waiting, self._waits = [rest], len(rest)
        energy, highest = levels_of(block)
        self._energy.append(energy)
        self._highest.append(highest)
        self.file.write(block.tobytes())
