"""The source: opens a file of any format, and refuses what can't be transcribed, in a sentence."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import av
from av.audio.stream import AudioStream
from av.container import InputContainer

# Files only: playlists (hls, concat, dash) would open what they name, on this machine or in its network.
FORMATS = (
    "wav,w64,rf64,mp3,flac,ogg,mov,matroska,webm,aac,aiff,caf,au,amr,ac3,eac3,dts,wv,ape,tta,asf,avi,flv,mpeg,mpegts"
)


def _decoders_of_audio() -> str:
    """To learn what a file holds, FFmpeg decodes a picture of each stream, too: of a cover with 16 000 x 16 000 pixels,
    750 kB as PNG, that took 8 s and 730 MiB. So it gets the decoders of audio only."""
    found = [name for name in sorted(av.codecs_available) if name not in NO_DECODER and _decodes_audio(name)]
    return ",".join(found)


def _decodes_audio(name: str) -> bool:
    try:
        return av.Codec(name, "r").type == "audio"
    except av.codec.codec.UnknownCodecError:  # it only encodes
        return False


NO_DECODER = ("anull", "wavesynth")  # the one passes on what it gets, the other makes sound of a description
OPTIONS = {"format_whitelist": FORMATS, "protocol_whitelist": "none", "codec_whitelist": _decoders_of_audio()}
CHANNELS_OF_LIMIT = 4  # so many of the greatest length are transcribed, or more that are shorter
RATES = (1_000, 768_000)
BARELY_S, SHARE = 1.0, 0.95  # decoded less than this share of the declared duration, by more than that: truncated


class _BadPlaceError(ValueError):
    """A damaged file leads to a place in it that can't be."""


class _File(io.BufferedReader):
    def seek(self, target: int, whence: int = io.SEEK_SET, /) -> int:
        try:
            return super().seek(target, whence)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise _BadPlaceError(f"it leads to byte {target} of itself") from None
            raise


NONSENSE = (ValueError, OverflowError)
"""What reading a damaged file raises beside FFmpeg's errors. An OSError is one of this machine."""


class Refused(Exception):
    """A file that can't be transcribed; another attempt would find the same. The message names the file."""


@dataclass(frozen=True, slots=True)
class Limits:
    seconds: float
    channels: int


@dataclass(frozen=True, slots=True)
class Source:
    """An open file with audio."""

    name: str  # as the client named it
    container: InputContainer
    stream: AudioStream
    limits: Limits

    @property
    def format(self) -> str:
        return str(self.container.format.name).split(",", maxsplit=1)[0]

    @property
    def declared(self) -> float | None:
        """Seconds, as the file says; for some formats an estimate from its size."""
        if self.stream.duration and self.stream.time_base:
            return float(self.stream.duration * self.stream.time_base)
        return self.container.duration / av.time_base if self.container.duration else None

    def refuse(self, problem: str) -> Refused:
        return Refused(f"{self.name} {problem}")

    def check_length(self, seconds: float, channels: int = 1) -> None:
        """`channels` that are transcribed each by itself."""
        limit = self.limits.seconds
        if seconds > limit:
            raise self.refuse(f"is too long: {clock(seconds)}, and the limit is {clock(limit)} (DALSTON_AUDIO_MAX_S)")
        if seconds * channels > limit * CHANNELS_OF_LIMIT:
            all_of_them = f"{channels} channels of {clock(seconds)} each"
            together = (
                f"{clock(limit * CHANNELS_OF_LIMIT)} for all of them ({CHANNELS_OF_LIMIT} times DALSTON_AUDIO_MAX_S)"
            )
            raise self.refuse(f"is too long: {all_of_them}, and the limit is {together}")

    def check_parts(self, packets: int, seconds: float) -> None:
        """While decoding: a part for each sample would take hours of work. No codec has parts of less than 2 ms."""
        if packets % 10_000 == 0 and seconds < packets / 2000:
            raise self.refuse(f"is damaged: the first {packets} parts of its audio hold {seconds:.1f} s")

    def check_whole(self, seconds: float, bad: int, packets: int) -> None:
        """After decoding: how much was there, and how many packets could not be decoded."""
        if not seconds:
            raise self.refuse("has no sound: nothing in its audio could be decoded")
        if bad > packets / 2:
            raise self.refuse(f"is damaged: {bad} of {packets} parts of its audio can't be decoded")
        declared = self.declared
        if declared and seconds < declared * SHARE and declared - seconds > BARELY_S:
            raise self.refuse(f"is truncated: it declares {clock(declared)}, and {clock(seconds)} are there")


@contextmanager
def opened(path: Path, name: str, limits: Limits) -> Iterator[Source]:
    """Raises Refused."""
    if path.stat().st_size == 0:
        raise Refused(f"{name} is empty")
    with _File(io.FileIO(path)) as file:
        if missing := missing_of_wave(file.read(8), path.stat().st_size):
            raise Refused(f"{name} is truncated: {missing} bytes of its sound are missing")
        file.seek(0)
        try:
            container = av.open(file, "r", options=OPTIONS, metadata_errors="replace")
        except (av.error.FFmpegError, *NONSENSE) as error:
            raise Refused(f"{name} can't be read as audio or video: {reason(error)}") from None
        with container:
            if not container.streams.audio:
                kinds = sorted({stream.type for stream in container.streams})
                raise Refused(f"{name} has no audio" + (f", only {' and '.join(kinds)}" if kinds else ""))
            source = Source(name, container, container.streams.audio[0], limits)
            _check(source)
            yield source


def _check(source: Source) -> None:
    codec = source.stream.codec_context
    channels, rate = codec.channels, codec.sample_rate
    if channels > source.limits.channels:
        limit = source.limits.channels
        raise source.refuse(f"has {channels} channels, and the limit is {limit} (DALSTON_AUDIO_MAX_CHANNELS)")
    if channels < 1:  # FFmpeg takes at most 512, and then names none
        raise source.refuse("has a number of channels that no decoder takes")
    if not RATES[0] <= rate <= RATES[1]:
        raise source.refuse(f"has {rate} samples per second, and from {RATES[0]} to {RATES[1]} are taken")
    if source.declared:
        source.check_length(source.declared)


def missing_of_wave(head: bytes, size: int) -> int:
    """Bytes that a WAV file declares and doesn't have: FFmpeg takes the file's end for the end of the sound. Programs
    that can't seek declare nothing, or the largest number."""
    kind, declared = head[:4], int.from_bytes(head[4:8], "little")
    if kind != b"RIFF" or declared == 0 or declared > 0x7FFF_0000:
        return 0
    whole = declared + 8
    return whole - size if size < whole * SHARE else 0


def reason(error: Exception) -> str:
    """In plain words: FFmpeg says much in "Invalid data found when processing input"."""
    if isinstance(error, av.error.InvalidDataError):
        return "it is damaged, truncated, or of another kind"
    return getattr(error, "strerror", None) or str(error)[:200]


def clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
