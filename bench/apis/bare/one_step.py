"""The same project on the handler that Dalston's web process uses: how much of the difference is the handler's."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.apis.bare.settings")
os.environ.setdefault("DALSTON_DB_POOL_SIZE", "10")

import django

django.setup()

from dalston_site.handler import OneStepHandler  # noqa: E402

application = OneStepHandler()
