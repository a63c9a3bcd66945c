"""Sound files of many kinds, made by PyAV and by hand, without an espeak or a recording."""

import struct
import zlib
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import OutputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray

TONE_HZ = 440
LAYOUTS = {1: "mono", 2: "stereo", 6: "5.1"}


def tone(seconds: float, rate: int, channels: int = 1) -> NDArray[np.float32]:
    """Channel n is n octaves higher, and softer."""
    time = np.arange(int(seconds * rate)) / rate
    rows = [0.5 / (number + 1) * np.sin(2 * np.pi * TONE_HZ * 2**number * time) for number in range(channels)]
    return np.array(rows, np.float32)


def spoken(recording: Path, seconds: float, rate: int, channels: int) -> NDArray[np.float32]:
    """The first seconds of a recording."""
    resampler = av.AudioResampler("fltp", LAYOUTS[channels], rate)
    with av.open(str(recording)) as container:
        parts = [part.to_ndarray() for frame in container.decode(audio=0) for part in resampler.resample(frame)]
    return np.concatenate(parts, axis=1, dtype=np.float32)[:, : int(seconds * rate)]


def encode(
    path: Path,
    codec: str,
    rate: int = 48_000,
    channels: int = 1,
    *,
    seconds: float = 3.0,
    video: bool = False,
    recording: Path | None = None,
) -> Path:
    """A tone, or the beginning of a recording."""
    sound = tone(seconds, rate, channels) if recording is None else spoken(recording, seconds, rate, channels)
    layout = LAYOUTS[channels]
    with av.open(str(path), "w") as out:
        film = video_stream(out) if video else None
        stream = out.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(stream, AudioStream)
        if film is not None:
            add_video(out, film, seconds)
        size = stream.codec_context.frame_size or 1024
        resampler = av.AudioResampler(stream.codec_context.format.name, layout, rate, frame_size=size)
        frame = av.AudioFrame.from_ndarray(sound, format="fltp", layout=layout)
        frame.rate = rate
        for part in [*resampler.resample(frame), *resampler.resample(None)]:
            out.mux(stream.encode(part))
        out.mux(stream.encode(None))
    return path


def video_stream(out: OutputContainer) -> VideoStream:
    """All streams are added before the first is written to."""
    stream = out.add_stream("mpeg4", rate=5)
    stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
    return stream


def add_video(out: OutputContainer, stream: VideoStream, seconds: float) -> None:
    for number in range(int(seconds * 5)):
        frame = av.VideoFrame(64, 48, "yuv420p")
        for plane in frame.planes:
            plane.update(bytes(plane.buffer_size))
        frame.pts, frame.time_base = number, Fraction(1, 5)
        out.mux(stream.encode(frame))
    out.mux(stream.encode(None))


def only_video(path: Path) -> Path:
    with av.open(str(path), "w") as out:
        add_video(out, video_stream(out), 1.0)
    return path


def wave(path: Path, data: bytes, *, channels: int = 1, rate: int = 16_000, declared: int | None = None) -> Path:
    size = len(data) if declared is None else declared
    layout = struct.pack("<HHIIHH", 1, channels, rate, rate * channels * 2 % 2**32, channels * 2, 16)
    head = b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + struct.pack("<I", 16) + layout
    path.write_bytes(head + b"data" + struct.pack("<I", size) + data)
    return path


def silent_flac(path: Path, seconds: float) -> Path:
    """A media bomb: hours of silence in a file of some hundred kilobytes."""
    rate, block = 8_000, 60_000
    with av.open(str(path), "w") as out:
        stream = out.add_stream("flac", rate=rate, layout="mono")
        for _ in range(int(seconds * rate) // block):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, block), np.int16), format="s16", layout="mono")
            frame.rate = rate
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def with_cover(mp3: Path, side: int) -> Path:
    """The file with a black picture of so many pixels squared as its cover: a thousandth of that in bytes."""
    packer = zlib.compressobj()
    rows = b"".join([*(packer.compress(bytes(1 + 3 * side)) for _ in range(side)), packer.flush()])
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    picture = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")
    body = b"\0image/png\0\x03\0" + picture
    frame = b"APIC" + struct.pack(">I", len(body)) + b"\0\0" + body
    size = bytes(len(frame) >> shift & 0x7F for shift in (21, 14, 7, 0))
    mp3.write_bytes(b"ID3\x03\0\0" + size + frame + _without_tag(mp3.read_bytes()))
    return mp3


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _without_tag(mp3: bytes) -> bytes:
    size = sum(byte << shift for byte, shift in zip(mp3[6:10], (21, 14, 7, 0), strict=True))
    return mp3[10 + size :] if mp3.startswith(b"ID3") else mp3
