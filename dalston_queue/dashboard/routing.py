"""WebSocket addresses."""

from channels.security.websocket import WebsocketDenier
from django.urls import path, re_path

from dalston_queue.broker.protocol.names import ENGINE_ID
from dalston_queue.dashboard.audit.consumer import AuditConsumer
from dalston_queue.dashboard.dead_letters.consumers import LetterConsumer, LettersConsumer
from dalston_queue.dashboard.job.consumer import JobConsumer
from dalston_queue.dashboard.jobs.consumer import JobsConsumer
from dalston_queue.dashboard.nodes.consumers import LogConsumer, NodeConsumer, NodesConsumer
from dalston_queue.dashboard.overview.consumer import OverviewConsumer
from dalston_queue.dashboard.stream.consumer import StreamConsumer
from dalston_queue.dashboard.task.consumer import TaskConsumer
from dalston_queue.dashboard.urls import NODE, QUEUE

websocket_urlpatterns = [
    path("ws/overview/", OverviewConsumer.as_asgi()),
    path("ws/audit/", AuditConsumer.as_asgi()),
    re_path(rf"^ws/streams/{QUEUE}/$", StreamConsumer.as_asgi()),
    path("ws/nodes/", NodesConsumer.as_asgi()),
    re_path(rf"^ws/nodes/{NODE}/$", NodeConsumer.as_asgi()),
    re_path(rf"^ws/nodes/{NODE}/logs/(?P<slot>{ENGINE_ID})/$", LogConsumer.as_asgi()),
    path("ws/dead-letters/", LettersConsumer.as_asgi()),
    path("ws/dead-letters/<uuid:letter_id>/", LetterConsumer.as_asgi()),
    path("ws/jobs/", JobsConsumer.as_asgi()),
    path("ws/tasks/<uuid:task_id>/", TaskConsumer.as_asgi()),
    path("ws/jobs/<uuid:job_id>/", JobConsumer.as_asgi()),
    # Without it, an address that nobody serves is a traceback in the log and a 500.
    re_path(r"", WebsocketDenier.as_asgi()),
]
