"""The API put together: every router, its auth, its errors and its docs page. Mounted under /api/v1/."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ninja import Swagger

from dalston_queue.api import routes
from dalston_queue.api.auth.bearer import CLOSED
from dalston_queue.api.errors import handlers
from dalston_queue.api.requests.body import MsgspecRenderer, StrictJson
from dalston_queue.api.requests.openapi import DocumentedApi
from dalston_queue.api.requests.strict_query import strict_query

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
# A module of routes/ is mounted because it is there.
for module in iter_modules(routes.__path__):
    api.add_router("", import_module(f"{routes.__name__}.{module.name}").router)
