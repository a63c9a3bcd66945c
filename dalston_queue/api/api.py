"""The API put together: every router, its auth, its errors and its docs page. Mounted under /api/v1/."""

from __future__ import annotations

from ninja import Swagger

from dalston_queue.api.auth.bearer import CLOSED
from dalston_queue.api.errors import handlers
from dalston_queue.api.requests.body import StrictJson
from dalston_queue.api.requests.openapi import DocumentedApi
from dalston_queue.api.requests.renderer import MsgspecRenderer
from dalston_queue.api.requests.strict_query import strict_query
from dalston_queue.api.routes import (
    audit,
    dead_letters,
    events,
    jobs,
    nodes,
    queue,
    replay_batches,
    streams,
    task_actions,
    tasks,
    webhooks,
    why,
    worker_commands,
    workers,
)

api = DocumentedApi(
    title="Dalston",
    version="1",
    description=(
        "A reliable task queue for GPU nodes. Send a token as `Authorization: Bearer dal_…` (`manage.py token create` "
        "makes one); on this page your login works too. Errors are RFC 9457 problem documents with a stable `code`."
    ),
    urls_namespace="api",
    auth=CLOSED,
    parser=StrictJson(),
    renderer=MsgspecRenderer(),
    docs=Swagger(settings={"persistAuthorization": False, "tryItOutEnabled": True, "defaultModelsExpandDepth": -1}),
)
handlers.install(api)
api.add_decorator(strict_query, mode="operation")
for router in (
    tasks.router,
    task_actions.router,
    jobs.router,
    events.router,
    queue.router,
    streams.router,
    replay_batches.router,
    dead_letters.router,
    why.router,
    nodes.router,
    worker_commands.router,
    workers.router,
    webhooks.router,
    audit.router,
):
    api.add_router("", router)
