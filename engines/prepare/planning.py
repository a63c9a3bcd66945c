"""The plan: which stages transcribe the chunks of a file, and how long each may take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dalston_queue.transcription.speech_models import AUTO, capability_of

MAX_STAGES = 190  # a job has at most 200
TRANSCRIBE_WEIGHT, ALIGN_WEIGHT = 16.0, 8.0
"""Of all chunks together, in the job's progress: about their share of the time. `prepare` and `merge` have 1 each."""
ENGLISH = ("en", None)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stored part of one channel."""

    audio: str  # reference of the artifact
    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


def longest_chunk(duration: float, channels: int, wanted: float, *, aligned: bool) -> float:
    """Seconds; more than the setting where a file would need too many stages."""
    per_channel = max(1, MAX_STAGES // (channels * (2 if aligned else 1)))
    return max(wanted, 2 * duration / per_channel)


def needs(model: str, language: str | None) -> list[str]:
    """Capabilities that transcribing takes. `auto` is any engine; for another language than English a model that knows
    more than one."""
    if model != AUTO:
        return [capability_of(model)]
    return [] if language in ENGLISH else ["multilingual"]


def transcribe_timeout(seconds: float) -> int:
    """Of a chunk: the slowest model needs about as long as the audio, and twice that beside other work."""
    return 300 + int(6 * seconds)


def align_timeout(seconds: float) -> int:
    return 120 + int(3 * seconds)


def merge_timeout(seconds: float) -> int:
    return 120 + int(seconds / 60)


def stages(wanted: Mapping[str, Any], channels: Sequence[Sequence[Chunk]], duration: float) -> list[dict[str, Any]]:
    """`wanted`: the parameters of `prepare`; `channels`: the chunks of each. The result is its `$stages`."""
    model, language = wanted.get("model") or AUTO, wanted.get("language")
    words, aligned = bool(wanted.get("words")), is_aligned(wanted)
    found: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    whole = sum(chunk.length for chunks in channels for chunk in chunks) or 1.0
    for channel, chunks in enumerate(channels):
        for number, chunk in enumerate(chunks, 1):
            ending = f"_ch{channel}" if len(channels) > 1 or len(chunks) > 1 else ""
            ending += f"_p{number}" if len(chunks) > 1 else ""
            common = {"audio": chunk.audio, "offset": chunk.start, "channel": channel, "language": language}
            share = max(0.001, chunk.length / whole)
            found.append(
                {
                    "stage": f"transcribe{ending}",
                    "queue": "transcribe",
                    "after": ["prepare"],
                    "parameters": {**common, "model": model, "words": words},
                    "required_capabilities": needs(model, language),
                    "timeout_seconds": transcribe_timeout(chunk.length),
                    "weight": TRANSCRIBE_WEIGHT * share,
                }
            )
            part = {"transcribe": f"transcribe{ending}", "align": None, "channel": channel}
            if aligned:
                part["align"] = f"align{ending}"
                found.append(
                    {
                        "stage": f"align{ending}",
                        "queue": "align",
                        "after": [f"transcribe{ending}"],
                        "required": False,
                        "parameters": {**common, "transcribe": f"transcribe{ending}"},
                        "timeout_seconds": align_timeout(chunk.length),
                        "weight": ALIGN_WEIGHT * share,
                    }
                )
            parts.append(part)
    found.append(
        {
            "stage": "merge",
            "queue": "merge",
            "after": [stage["stage"] for stage in found],
            "parameters": {"parts": parts, "duration": duration, "channels": len(channels), "language": language},
            "timeout_seconds": merge_timeout(duration),
        }
    )
    return found


def is_aligned(wanted: Mapping[str, Any]) -> bool:
    """Whether words get their times by alignment, which has an English dictionary only."""
    return bool(wanted.get("words") and wanted.get("align", True)) and wanted.get("language") in ENGLISH
