"""The prepare engine: a file of any format as 16 kHz mono chunks, and the stages that transcribe them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from dalston_queue import defaults
from engines.audio.samples import write
from engines.prepare import download
from engines.prepare.decoding import Channel, decode
from engines.prepare.levels import cut_in_silence, peaks
from engines.prepare.planning import Chunk, is_aligned, longest_chunk, stages
from engines.prepare.source import Limits, Refused, opened
from engines.sdk import BrokenConfigError, Engine, Reject, Retry, Task


class Prepare(Engine):
    def load(self) -> None:
        self._limits = Limits(
            _setting("DALSTON_AUDIO_MAX_S", defaults.AUDIO_MAX_S),
            int(_setting("DALSTON_AUDIO_MAX_CHANNELS", defaults.AUDIO_MAX_CHANNELS)),
        )
        self._chunk_s = _setting("DALSTON_AUDIO_CHUNK_S", defaults.AUDIO_CHUNK_S)
        self._max_bytes = int(_setting("DALSTON_MAX_UPLOAD_BYTES", defaults.MAX_UPLOAD_BYTES))
        self._allowed = download.allowed_networks()

    def run(self, task: Task) -> Any:
        wanted = task.parameters
        try:
            audio, name, path = self._file(task)
            with opened(path, name, self._limits) as source:
                separate = wanted.get("channels") == "separate"
                total = source.declared or self._limits.seconds

                def tick(seconds: float) -> None:
                    task.check()
                    task.progress(0.1 + 0.6 * min(1.0, seconds / total), f"{seconds:.0f} s of audio decoded")

                channels = decode(source, task.folder, tick, separate=separate)
                kind = source.format
        except (Refused, download.Refused) as error:
            return Reject(str(error))
        except download.Failed as error:
            return Retry(str(error))
        duration = round(max(channel.duration for channel in channels), 3)
        longest = longest_chunk(duration, len(channels), self._chunk_s, aligned=is_aligned(wanted))
        chunks = [self._chunks(task, channel, longest) for channel in channels]
        return {
            "audio": audio,
            "filename": name,
            "format": kind,
            "duration": duration,
            "channels": len(channels),
            "peaks": peaks([channel.highest for channel in channels]),
            "$stages": stages(wanted, chunks, duration),
        }

    def _file(self, task: Task) -> tuple[str, str, Path]:
        """Its reference, its name for people, and where it is."""
        wanted = task.parameters
        if audio := wanted.get("audio"):
            return audio, wanted.get("filename") or "the file", task.artifact(audio)
        url = wanted.get("audio_url")
        if not url:
            raise Refused("the task has neither audio nor audio_url")

        def tick(arrived: int, total: int | None) -> None:
            task.check()
            task.progress(0.1 * arrived / total if total else 0.0, f"{arrived / 1e6:.1f} MB downloaded")

        path = task.folder / "download"
        download.download(url, path, self._max_bytes, self._allowed, tick)
        return task.put_artifact(path), wanted.get("filename") or download.name_in(url), path

    def _chunks(self, task: Task, channel: Channel, longest: float) -> list[Chunk]:
        found = []
        for start, end in cut_in_silence(channel.energy, channel.duration, longest):
            task.check()
            task.progress(0.7 + 0.3 * end / channel.duration, f"{end:.0f} of {channel.duration:.0f} s stored")
            path = task.folder / "chunk.flac"
            write(path, channel.part(start, end))
            found.append(Chunk(task.put_artifact(path), start, end))
        return found


def _setting(name: str, default: float) -> float:
    text = os.environ.get(name, "").strip()
    try:
        value = float(text) if text else float(default)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise BrokenConfigError(f"{name} is {text!r}. Expected a number above 0, such as {default}.")
    return value


if __name__ == "__main__":
    Prepare().serve()
