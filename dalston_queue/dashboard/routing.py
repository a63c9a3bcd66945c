"""WebSocket addresses."""

from django.urls import path

from dalston_queue.dashboard.consumers import OverviewConsumer

websocket_urlpatterns = [path("ws/overview/", OverviewConsumer.as_asgi())]
