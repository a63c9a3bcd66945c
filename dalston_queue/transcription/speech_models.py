"""The models of speech that engines can have, by name, with their capabilities. Engines, API and pages share this leaf.

A name that is not here is refused at once. A model that is here, and that no engine has right now, waits for a node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

AUTO = "auto"
"""Any engine's choice."""
LAST_RESORT = "pocketsphinx-en"
_OPENAI = {"whisper-1": AUTO}
_NOT_IN_A_CAPABILITY = re.compile(r"[^a-z0-9_-]")


def capability_of(name: str) -> str:
    """The capability of the engines that have the model of this name, also of one that is not listed here."""
    return _NOT_IN_A_CAPABILITY.sub("-", name.lower())


@dataclass(frozen=True, slots=True)
class SpeechModel:
    name: str
    languages: tuple[str, ...]  # empty: many, found by the model itself
    what: str

    @property
    def capability(self) -> str:
        """Of the engines that have the model."""
        return capability_of(self.name)

    def speaks(self, language: str) -> bool:
        return not self.languages or language in self.languages


MODELS = {
    model.name: model
    for model in (
        SpeechModel("moonshine-tiny", ("en",), "English, on a CPU"),
        SpeechModel(LAST_RESORT, ("en",), "English, on any CPU; poor, the last resort"),
        SpeechModel("whisper-tiny", (), "99 languages, on a GPU"),
        SpeechModel("whisper-base", (), "99 languages, on a GPU"),
        SpeechModel("whisper-small", (), "99 languages, on a GPU"),
        SpeechModel("whisper-medium", (), "99 languages, on a GPU"),
        SpeechModel("whisper-large-v3", (), "99 languages, on a GPU; the best, and the slowest"),
        SpeechModel("whisper-large-v3-turbo", (), "99 languages, on a GPU; nearly as good, and several times faster"),
    )
}


def known_name(name: str) -> str | None:
    """The name as it is used here; None for a model that is not known."""
    name = _OPENAI.get(name, name)
    return name if name == AUTO or name in MODELS else None


def names() -> list[str]:
    return [AUTO, *_OPENAI, *MODELS]
