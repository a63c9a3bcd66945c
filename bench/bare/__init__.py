"""The yardstick: a Django project as `startproject` makes it, with one bare django-ninja view that inserts one row.

Nothing of Dalston is in it but its settings for the database pool and the log. No authentication, no limits.
"""

import os
from typing import Any


def application() -> Any:
    """For uvicorn, on Django's own handler. With a pool of the size that Dalston's has."""
    os.environ.setdefault("DALSTON_DB_POOL_SIZE", "10")
    from django.core.asgi import get_asgi_application

    return get_asgi_application()


def one_step() -> Any:
    """On the handler of Dalston's web process, which shows how much of the difference is the handler's."""
    application()
    from dalston_site.handler import OneStepHandler

    return OneStepHandler()
