"""prepare takes files of many formats, and refuses what can't be transcribed in a sentence that names the file."""

import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dalston_queue.artifacts import open_store
from engines.audio.samples import RATE, read
from engines.prepare.decoding import decode
from engines.prepare.engine import Prepare
from engines.prepare.source import Limits, Refused, opened
from engines.sdk import Cancelled, Done, Reject
from engines.sdk.outcomes import Outcome
from engines.sdk.testing import TestRun, run_task
from tests.conftest import ROOT
from tests.engines.prepare.files import TONE_HZ, encode, only_video, silent_flac, tone, wave, with_cover

SOUND = (tone(3.0, 16_000)[0] * 32767).astype(np.int16).tobytes()


def prepare(file: Path, folder: Path, **parameters: Any) -> TestRun:
    store = folder / "store"
    reference = open_store(store.as_uri()).put_path(file).ref
    return run_task(Prepare(), {"audio": reference, "filename": file.name, **parameters}, artifacts=store)


def sounds_like(run: TestRun, stage: dict[str, Any], hertz: float) -> bool:
    samples = read(run.store.path(stage["parameters"]["audio"], Path("/nowhere")))
    middle = samples[RATE : 2 * RATE]
    loudest = int(np.abs(np.fft.rfft(middle)).argmax())
    return abs(loudest - hertz) <= 2


FORMATS: dict[str, Callable[[Path], Path]] = {
    "a.wav": lambda path: wave(path, SOUND),
    "a.mp3": lambda path: encode(path, "libmp3lame", 44_100, 2),
    "a.m4a": lambda path: encode(path, "aac", 44_100, 2),
    "a.ogg": lambda path: encode(path, "libopus"),
    "a.flac": lambda path: encode(path, "flac", 44_100, 6),
    "a.webm": lambda path: encode(path, "libopus"),
    "video.mp4": lambda path: encode(path, "aac", video=True),
    "video.mkv": lambda path: encode(path, "libopus", video=True),
    "wrong_extension.txt": lambda path: encode(path.with_suffix(".mp3"), "libmp3lame").rename(path),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_of_each_format_becomes_one_channel_of_16_khz(name: str, tmp_path: Path) -> None:
    run = prepare(FORMATS[name](tmp_path / name), tmp_path)
    assert isinstance(run.outcome, Done), run.outcome
    result = run.outcome.result
    assert result["duration"] == pytest.approx(3.0, abs=0.1) and result["channels"] == 1
    assert [stage["stage"] for stage in result["$stages"]] == ["transcribe", "merge"]
    assert sounds_like(run, result["$stages"][0], TONE_HZ)
    assert 10 < len(result["peaks"]) <= 600 and max(result["peaks"]) == 100
    assert [fraction for fraction, _ in run.progress] == sorted(fraction for fraction, _ in run.progress)


def test_each_channel_is_a_file_of_its_own_when_asked_for(tmp_path: Path) -> None:
    run = prepare(encode(tmp_path / "a.flac", "flac", 44_100, 2), tmp_path, channels="separate")
    stages = run.outcome.result["$stages"]
    assert [stage["stage"] for stage in stages] == ["transcribe_ch0", "transcribe_ch1", "merge"]
    assert sounds_like(run, stages[0], TONE_HZ) and sounds_like(run, stages[1], 2 * TONE_HZ)


def test_a_long_file_is_chunks_without_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALSTON_AUDIO_CHUNK_S", "2")
    sound = np.frombuffer(SOUND * 3, np.int16)
    run = prepare(wave(tmp_path / "a.wav", sound.tobytes()), tmp_path)
    *chunks, merge = run.outcome.result["$stages"]
    parts = [read(run.store.path(stage["parameters"]["audio"], tmp_path)) for stage in chunks]
    assert len(parts) > 4 and all(len(part) <= 2 * RATE for part in parts)
    assert (np.concatenate(parts) == sound).all()
    offsets = np.cumsum([0, *(len(part) for part in parts[:-1])]) / RATE
    assert [stage["parameters"]["offset"] for stage in chunks] == pytest.approx(list(offsets))
    assert merge["after"] == [stage["stage"] for stage in chunks]


def text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def cut(path: Path, share: float = 0.5) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    return path


BROKEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "empty.wav": (lambda path: text(path, ""), "empty.wav is empty"),
    "zero.wav": (lambda path: wave(path, b""), "zero.wav has no sound"),
    "text.mp3": (lambda path: text(path, "hello " * 999), "text.mp3 can't be read as audio"),
    "film.mp4": (only_video, "film.mp4 has no audio, only video"),
    "cut.wav": (lambda path: cut(wave(path, SOUND)), "cut.wav is truncated: "),
    "cut.m4a": (lambda path: cut(encode(path, "aac")), "cut.m4a can't be read as audio"),
    "cut.flac": (lambda path: cut(encode(path, "flac")), "cut.flac is truncated: it declares 3.0 s, and 1."),
    "cut.mp3": (lambda path: cut(encode(path, "libmp3lame")), "cut.mp3 is truncated"),
    "cut.webm": (lambda path: cut(encode(path, "libopus")), "cut.webm is truncated"),
    "wide.wav": (lambda path: wave(path, bytes(200 * 999), channels=100), "has 100 channels, and the limit is 32"),
    "wider.wav": (lambda path: wave(path, bytes(20_000 * 99), channels=10_000), "has a number of channels that no"),
    "slow.wav": (lambda path: wave(path, SOUND, rate=1), "slow.wav has 1 samples per second"),
    "bomb.flac": (lambda path: silent_flac(path, 4000), "bomb.flac is too long: 1:06:"),
    "list.m3u8": (lambda path: text(path, "#EXTM3U\n#EXTINF:9,\nfile:///etc/passwd\n"), "can't be read"),
    "list.txt": (lambda path: text(path, "ffconcat version 1.0\nfile /etc/passwd\n"), "can't be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_can_t_be_transcribed_is_refused_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DALSTON_AUDIO_MAX_S", "3600")
    make, problem = BROKEN[name]
    outcome = prepare(make(tmp_path / name), tmp_path).outcome
    assert isinstance(outcome, Reject), outcome
    assert outcome.message.startswith(name) and problem in outcome.message
    assert "\n" not in outcome.message and str(tmp_path) not in outcome.message


def test_many_channels_are_shorter_when_each_is_transcribed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 channels of 6 hours would be 22 GB on disk, and eight days of speech to recognise, of a file of megabytes."""
    monkeypatch.setenv("DALSTON_AUDIO_MAX_S", "4")
    file = encode(tmp_path / "a.flac", "flac", 44_100, 6)
    outcome = prepare(file, tmp_path, channels="separate").outcome
    assert isinstance(outcome, Reject)
    assert outcome.message.startswith("a.flac is too long: 6 channels of 3.0 s each, and the limit is 16.0 s for all")
    assert isinstance(prepare(file, tmp_path).outcome, Done)


def test_a_bomb_that_declares_no_length_is_refused_while_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DALSTON_AUDIO_MAX_S", "2")
    endless = encode(tmp_path / "a.flac", "flac")
    content = bytearray(endless.read_bytes())
    at = content.index(b"fLaC") + 8 + 13  # the low bits of the number of samples in STREAMINFO: 0 is "unknown"
    content[at] &= 0xF0
    content[at + 1 : at + 5] = bytes(4)
    endless.write_bytes(content)
    outcome = prepare(endless, tmp_path).outcome
    assert isinstance(outcome, Reject) and "a.flac is too long" in outcome.message


@pytest.mark.parametrize(
    ("make", "seconds"),
    [
        (lambda path: silent_flac(path, 3600), 3600),
        (lambda path: with_cover(encode(path.with_suffix(".mp3"), "libmp3lame"), 7_000), 3),
    ],
    ids=["an hour of silence", "a cover of 49 megapixels"],
)
def test_a_small_file_that_decodes_to_much_stays_small_in_memory(
    make: Callable[[Path], Path], seconds: float, tmp_path: Path
) -> None:
    """In a process of its own, which prints how much its largest resident size grew."""
    file = make(tmp_path / "a.flac")
    assert file.stat().st_size < 3_000_000
    source = (
        "import resource, sys; from pathlib import Path\n"
        "from engines.prepare.decoding import decode\n"
        "from engines.prepare.source import Limits, opened\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "before = peak()\n"
        "with opened(Path(sys.argv[1]), 'a file', Limits(6 * 3600, 32)) as source:\n"
        "    [channel] = decode(source, Path(sys.argv[2]), lambda _: None, separate=False)\n"
        "print(peak() - before, round(channel.duration))\n"
    )
    argv = [sys.executable, "-c", source, str(file), str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    grown, found = map(int, done.stdout.split())
    assert found == pytest.approx(seconds, abs=10)
    assert grown < 60  # MiB; 115 and 147 are decoded


def test_damage_anywhere_is_refused_or_decoded_and_nothing_else(tmp_path: Path) -> None:
    """Bytes changed, taken out and put in, with a fixed seed. Other errors would be tried again."""
    seed = random.Random(7)
    kinds = {"a.caf": "pcm_s16be", "a.ts": "aac", "a.ogg": "libopus", "a.m4a": "aac", "a.flac": "flac"}
    wholes = {name: encode(tmp_path / name, codec, seconds=0.5).read_bytes() for name, codec in kinds.items()}
    limits, file = Limits(60, 32), tmp_path / "damaged"
    for number in range(200):
        content = bytearray(wholes[list(kinds)[number % len(kinds)]])
        for _ in range(seed.choice((1, 5, 50))):
            at = seed.randrange(min(len(content), seed.choice((100, 400, len(content)))))
            content[at : at + seed.choice((0, 1, 1, 9))] = seed.randbytes(seed.choice((0, 1, 1, 9)))
        file.write_bytes(content)
        with suppress(Refused), opened(file, "damaged", limits) as source:
            decode(source, tmp_path, lambda _: None, separate=number % 2 == 0)


def test_a_file_with_a_part_for_each_sample_is_refused_soon(tmp_path: Path) -> None:
    file = encode(tmp_path / "a.caf", "pcm_s16be", seconds=1.0)
    content = bytearray(file.read_bytes())
    at = content.index(b"desc") + 12 + 16  # bytes and frames of a packet in its description
    content[at : at + 8] = (2).to_bytes(4, "big") + (0x7F0001).to_bytes(4, "big")
    file.write_bytes(content)
    outcome = prepare(file, tmp_path).outcome
    assert isinstance(outcome, Reject)
    assert outcome.message == "a.caf is damaged: the first 10000 parts of its audio hold 0.2 s"


def test_one_bad_packet_is_a_click_and_no_reason_to_refuse(tmp_path: Path) -> None:
    file = encode(tmp_path / "a.mp3", "libmp3lame", seconds=10.0)
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 300] = bytes(300)
    file.write_bytes(content)
    outcome = prepare(file, tmp_path).outcome
    assert isinstance(outcome, Done) and outcome.result["duration"] == pytest.approx(10.0, abs=0.3)


def test_a_cancel_ends_it(tmp_path: Path) -> None:
    file = silent_flac(tmp_path / "a.flac", 3600)
    store = tmp_path / "store"
    reference = open_store(store.as_uri()).put_path(file).ref
    outcome: Outcome = run_task(Prepare(), {"audio": reference}, artifacts=store, cancel_after=0.1).outcome
    assert outcome == Cancelled()
