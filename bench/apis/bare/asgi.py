"""For uvicorn: as `startproject` writes it, with the pool that Dalston's web process has."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.apis.bare.settings")
os.environ.setdefault("DALSTON_DB_POOL_SIZE", "10")

from django.core.asgi import get_asgi_application

application = get_asgi_application()
