"""The client of Dalston: submit, watch, cancel and replay from Python; the command `dalston` for a shell.

    with Client() as dalston:                               # DALSTON_URL and DALSTON_TOKEN
        job = dalston.submit_job(pipeline="shop", parameters={"item": 7})
        for event in dalston.watch(job["job_id"]):
            ...

client.py      Client: one method per route of the API
transcriptions.py  the routes of transcriptions
answers.py     types of the API's answers
errors.py      the tree of exceptions
config.py      address and token, from arguments, files or the environment
transport.py   HTTP: retries, problem documents, streams
retry.py       whether to retry a call, and the backoff
sse.py         parses server-sent events
watch.py       watches a job, reconnects broken streams
waiting.py     waits for the end of a job or a transcription
cli/           the command `dalston`
"""

from dalston_client.client import Client
from dalston_client.errors import (
    ApiError,
    Busy,
    Conflict,
    DalstonError,
    Invalid,
    NotConfigured,
    NotFound,
    Refused,
    Unavailable,
    Unreachable,
)
from dalston_client.watch import Event

__all__ = [
    "ApiError",
    "Busy",
    "Client",
    "Conflict",
    "DalstonError",
    "Event",
    "Invalid",
    "NotConfigured",
    "NotFound",
    "Refused",
    "Unavailable",
    "Unreachable",
]
