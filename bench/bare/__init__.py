"""Reference for the API: a Django project as made by `startproject`, with one django-ninja view that inserts a row.

From Dalston it has only the settings of the database pool and the log. No authentication, no limits.
"""

import os
from typing import Any


def application() -> Any:
    """For uvicorn, on Django's own handler, with a pool of Dalston's size."""
    os.environ.setdefault("DALSTON_DB_POOL_SIZE", "10")
    from django.core.asgi import get_asgi_application

    return get_asgi_application()


def one_step() -> Any:
    """On the handler of Dalston's web process: shows the handler's part of the difference."""
    application()
    from dalston_site.web.handler import OneStepHandler

    return OneStepHandler()
