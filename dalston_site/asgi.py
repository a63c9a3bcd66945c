"""The web process: HTTP by Django, WebSockets by Channels, which `python -m dalston_site.web` serves."""

import os
import sys
import warnings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dalston_site.settings")
# Requests run on many threads; without a pool each of them would keep a connection to Postgres.
os.environ.setdefault("DALSTON_DB_POOL_SIZE", "10")

import django

django.setup()  # loads the apps; the imports below need them

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.conf import settings
from django.core.management.base import BaseCommand, SystemCheckError

from dalston_queue.dashboard.security.sockets import SameOrigin, UnavailableSocket
from dalston_queue.dashboard.urls import websocket_urlpatterns
from dalston_queue.health.report import Health
from dalston_queue.health.servers import probes
from dalston_queue.redis import mark_web_process
from dalston_queue.tracing import export
from dalston_site.web.handler import OneStepHandler
from dalston_site.web.serving import HealthRoutes, free_thread, stopping
from dalston_site.web.sockets import PacedHandshakes

mark_web_process()
# Static files only: they are small, and whatever else is streamed is read asynchronously.
warnings.filterwarnings("ignore", "StreamingHttpResponse must consume synchronous iterators")
export.configure("web")

try:
    # As manage.py does for every command.
    BaseCommand().check()
    BaseCommand().check(tags=["static"], include_deployment_checks=True)  # nothing else needs these files
except SystemCheckError as error:
    sys.exit(str(error))

if settings.DALSTON_OIDC_ISSUER:
    # Half a second of work, in which the first sign-in would delay all other requests.
    import dalston_queue.dashboard.sign_in.provider  # noqa: F401

handler = OneStepHandler()
health = Health("web", ready=[*probes(applies_events=False), free_thread(handler.threads)], stopping=stopping)
application = ProtocolTypeRouter(
    {
        "http": HealthRoutes(health, handler),
        "websocket": UnavailableSocket(
            SameOrigin(PacedHandshakes(handler.keep_pace, AuthMiddlewareStack(URLRouter(websocket_urlpatterns))))
        ),
    }
)
