"""For uvicorn: the project as `startproject` writes it (`application`), and on the handler of Dalston's web process
(`one_step`), which shows how much of the difference is the handler's. Both with the pool that Dalston's has.
"""

import os

os.environ.setdefault("DALSTON_DB_POOL_SIZE", "10")

from django.core.asgi import get_asgi_application

application = get_asgi_application()

from dalston_site.handler import OneStepHandler  # noqa: E402 - it needs Django to be set up

one_step = OneStepHandler()
