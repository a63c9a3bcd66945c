"""WebSocket addresses."""

from django.urls import path

from dalston_queue.dashboard.audit_consumer import AuditConsumer
from dalston_queue.dashboard.consumers import JobConsumer, OverviewConsumer

websocket_urlpatterns = [
    path("ws/overview/", OverviewConsumer.as_asgi()),
    path("ws/audit/", AuditConsumer.as_asgi()),
    path("ws/jobs/<uuid:job_id>/", JobConsumer.as_asgi()),
]
