"""The client of Dalston: submit, follow, cancel and replay from Python. `dalston` is the same for a shell.

    with Client() as dalston:                               # DALSTON_URL and DALSTON_TOKEN
        job = dalston.submit_job(pipeline="shop", parameters={"order": 7})
        for event in dalston.watch(job["job_id"]):
            ...

client.py      Client: one method per thing that the API can do
answers.py     what the API answers, as types
errors.py      what can go wrong; the tree is in its docstring
config.py      where the address and the token come from
transport.py   HTTP: retries, problem documents, streams
patience.py    whether and when a call is tried again
sse.py         reads server-sent events
watch.py       follows a job over broken connections
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
