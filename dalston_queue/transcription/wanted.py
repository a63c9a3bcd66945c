"""What a client asks of a transcription, checked; and the job that does it.

The job begins with one stage, `prepare`, which learns what the audio is and asks for the others: channels, chunks and
timeouts depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from ipaddress import ip_network
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings

from dalston_queue.addresses import UrlRefused, read_url
from dalston_queue.artifacts import is_reference
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.transcription.speech_models import AUTO, MODELS, known_name, names

NAME = "transcription"
PREPARE = "prepare"
MERGE = "merge"
MAX_FILENAME = 200
CHANNELS = ("mixed", "separate")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The parameters of stage `prepare`. Either `audio` or `audio_url` is set."""

    filename: str
    audio: str | None = None
    audio_url: str | None = None
    model: str = AUTO
    language: str | None = None
    channels: str = "mixed"
    words: bool = False
    align: bool = False
    priority: str = Priority.MEDIUM

    @property
    def parameters(self) -> dict[str, Any]:
        absent = {"audio": self.audio, "audio_url": self.audio_url}
        return {name: value for name, value in asdict(self).items() if absent.get(name, "") is not None}

    def job(self, *, trace_id: str | None = None, callback_url: str | None = None) -> JobSpec:
        return JobSpec(
            name=NAME,
            stages=self.stages(),
            parameters=self.parameters,
            priority=Priority(self.priority),
            trace_id=trace_id,
            callback_url=callback_url,
            # Two names of one content are one request.
            ignored_by_keys=("filename",),
        )

    def stages(self) -> tuple[StageSpec, ...]:
        return (StageSpec(stage=PREPARE, queue=PREPARE, task_type=PREPARE, parameters=self.parameters),)


def wanted_of(asked: Mapping[str, Any]) -> Wanted:
    """Checks the parameters as they come from a client. Raises InvalidJob."""
    unknown = sorted(asked.keys() - Wanted.__dataclass_fields__.keys())
    if unknown:
        raise InvalidJob(f"a transcription has no parameter {unknown[0]!r}")
    audio, url = asked.get("audio"), asked.get("audio_url")
    if (audio is None) == (url is None):
        raise InvalidJob("a transcription needs either audio or audio_url, and not both")
    if audio is not None and not is_reference(audio):
        raise InvalidJob("audio is the reference of an upload: sha256: and 64 hex digits")
    if url is not None:
        url = checked_url(url)
    model, language = checked_model(asked.get("model"), asked.get("language"))
    channels = asked.get("channels") or CHANNELS[0]
    if channels not in CHANNELS:
        raise InvalidJob(f"channels is one of {', '.join(CHANNELS)}")
    words = asked.get("words", False)
    align = words if asked.get("align") is None else asked["align"]  # not every model times words by itself
    if not (isinstance(words, bool) and isinstance(align, bool)):
        raise InvalidJob("words and align are true or false")
    priority = asked.get("priority") or Priority.MEDIUM
    if priority not in {each.value for each in Priority}:
        raise InvalidJob(f"priority is one of {', '.join(each.value for each in Priority)}")
    return Wanted(
        filename=clean_name(asked.get("filename") or (_name_in(url) if url else "")),
        audio=audio,
        audio_url=url,
        model=model,
        language=language,
        channels=channels,
        priority=str(priority),
        words=words or align,
        align=align,
    )


def pipeline_stages(parameters: Mapping[str, Any]) -> Sequence[StageSpec]:
    return wanted_of(parameters).stages()


def checked_url(url: object) -> str:
    """The URL as it is stored. Its addresses are checked when it is fetched, at every redirect. Raises InvalidJob."""
    if not isinstance(url, str):
        raise InvalidJob("the audio_url is a text")
    allowed = [ip_network(network) for network in settings.DALSTON_AUDIO_ALLOWED_NETWORKS]
    try:
        return read_url(url, allowed).url
    except UrlRefused as error:
        raise InvalidJob(f"the audio_url {error}") from None


def checked_model(model: object, language: object) -> tuple[str, str | None]:
    """Raises InvalidJob for a name that no engine could ever have, or a language that the model does not speak."""
    name = known_name(str(model)) if model else AUTO
    if name is None:
        raise InvalidJob(f"the model {str(model)[:100]!r} is not known; known are {', '.join(names())}")
    if language in (None, ""):
        return name, None
    if not isinstance(language, str) or not _LANGUAGE.fullmatch(language):
        raise InvalidJob("the language is a code of ISO 639, such as en")
    if name != AUTO and not MODELS[name].speaks(language):
        spoken = ", ".join(MODELS[name].languages)
        raise InvalidJob(f"the model {name} speaks {spoken}, not {language}; leave out the model, or name another")
    return name, language


def clean_name(name: str) -> str:
    """The last part of what a client calls its file, printable: it is shown, and never a path."""
    last = re.split(r"[/\\]", name)[-1]
    last = _UNPRINTABLE.sub("", last).strip().strip(".")
    return last[-MAX_FILENAME:] or "audio"


def _name_in(url: str) -> str:
    return unquote(urlsplit(url).path, errors="replace")
