"""/models: the models of speech by name, as OpenAI's clients list them."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Router

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.errors.problems import answers
from dalston_queue.api.schemas.transcriptions import ModelOut, ModelsOut
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.models.accounts import Scope
from dalston_queue.redis import get_broker
from dalston_queue.transcription.speech_models import AUTO, MODELS, SpeechModel

router = Router(tags=["transcription"])
QUEUE = "transcribe"


@router.get("/models", auth=needs(Scope.READ, Scope.SUBMIT), response=answers({200: ModelsOut}))
def list_models(request: HttpRequest) -> ModelsOut:
    """The names that `model` takes, and which of them engines have right now."""
    capabilities = _live()
    auto = SpeechModel(AUTO, (), "the choice of whichever engine is free")
    data = [_out(auto, None if capabilities is None else bool(capabilities))]
    for model in MODELS.values():
        has = None if capabilities is None else any(model.capability in each for each in capabilities)
        data.append(_out(model, has))
    return ModelsOut(object="list", data=data)


def _out(model: SpeechModel, available: bool | None) -> ModelOut:
    return ModelOut(id=model.name, languages=list(model.languages), description=model.what, available=available)


def _live() -> list[frozenset[str]] | None:
    """The capabilities of each engine that transcribes; None if Redis does not answer."""
    try:
        engines = get_broker().registry.engines()
    except BrokerError:
        return None
    serving = (engine for engine in engines if QUEUE in engine.queues and engine.state is EngineState.READY)
    return [frozenset(engine.capabilities) for engine in serving]
