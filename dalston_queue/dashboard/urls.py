"""The URLs of the dashboard: pages, and the WebSockets that keep them up to date."""

from channels.security.websocket import WebsocketDenier
from django.contrib.auth.views import LogoutView
from django.urls import path, re_path

from dalston_queue.broker.protocol.names import ENGINE_ID, NAME, NODE_ID, WORKER_ID
from dalston_queue.dashboard.audit import views as audit_views
from dalston_queue.dashboard.audit.read import FIELDS as AUDIT_FIELDS
from dalston_queue.dashboard.audit.render import audit_fragments
from dalston_queue.dashboard.dead_letters import actions as letters_acts
from dalston_queue.dashboard.dead_letters import replay as letters_replay
from dalston_queue.dashboard.dead_letters import views as letters_views
from dalston_queue.dashboard.dead_letters.read import FIELDS as LETTER_FIELDS
from dalston_queue.dashboard.dead_letters.read import PAGE_FIELDS
from dalston_queue.dashboard.dead_letters.render import letter_fragments, letters_fragments
from dalston_queue.dashboard.job import views as job_views
from dalston_queue.dashboard.job import webhooks as job_webhooks
from dalston_queue.dashboard.job.render import job_fragments
from dalston_queue.dashboard.jobs import views as jobs_views
from dalston_queue.dashboard.jobs.read import FIELDS as JOBS_FIELDS
from dalston_queue.dashboard.jobs.render import jobs_fragments
from dalston_queue.dashboard.live.consumer import live, live_feed
from dalston_queue.dashboard.nodes import actions as nodes_commands
from dalston_queue.dashboard.nodes import actions as nodes_workers
from dalston_queue.dashboard.nodes import views as nodes_views
from dalston_queue.dashboard.nodes.logs import LogFeed
from dalston_queue.dashboard.nodes.render import fleet_fragments, node_fragments
from dalston_queue.dashboard.overview import views as overview_views
from dalston_queue.dashboard.overview.render import current_fragments
from dalston_queue.dashboard.queue import views as stream_views
from dalston_queue.dashboard.queue.query import FIELDS as STREAM_FIELDS
from dalston_queue.dashboard.queue.render import stream_fragments
from dalston_queue.dashboard.security.views import ThrottledLogin, favicon, healthz
from dalston_queue.dashboard.task import actions as task_acts
from dalston_queue.dashboard.task import views as task_views
from dalston_queue.dashboard.task.render import task_fragments

app_name = "dashboard"
QUEUE = rf"(?P<queue>{NAME.pattern})"
NODE = rf"(?P<node_id>{NODE_ID})"
WORKER = rf"(?P<worker_id>{WORKER_ID})"
urlpatterns = [
    path("", overview_views.overview, name="overview"),
    path("jobs/", jobs_views.jobs, name="jobs"),
    path("jobs/<uuid:job_id>/", job_views.job, name="job"),
    path("jobs/<uuid:job_id>/cancel/", job_views.cancel, name="cancel-job"),
    path("jobs/<uuid:job_id>/webhooks/<uuid:delivery_id>/send/", job_webhooks.send_webhook, name="send-webhook"),
    path("tasks/<uuid:task_id>/", task_views.task, name="task"),
    path("tasks/<uuid:task_id>/runs/<int:number>/log/", task_views.run_log, name="run-log"),
    path("tasks/<uuid:task_id>/act/<str:act>/", task_acts.act_on_task, name="act-on-task"),
    path("streams/", stream_views.streams, name="streams"),
    re_path(rf"^streams/{QUEUE}/$", stream_views.stream, name="stream"),
    re_path(rf"^streams/{QUEUE}/brake/$", stream_views.brake, name="brake"),
    path("dead-letters/", letters_views.letters, name="dead-letters"),
    path("dead-letters/replay/", letters_replay.replay_many, name="dead-letters-replay"),
    path("dead-letters/replay-selected/", letters_acts.replay, name="dead-letters-replay-selected"),
    path("dead-letters/discard/", letters_acts.discard, name="dead-letters-discard"),
    path("dead-letters/orders/<uuid:order_id>/<str:verb>/", letters_acts.withdraw, name="replay-batch"),
    path("dead-letters/<uuid:letter_id>/", letters_views.letter, name="dead-letter"),
    path("audit/", audit_views.audit, name="audit"),
    path("audit/export.<str:kind>", audit_views.export, name="audit-export"),
    path("nodes/", nodes_views.nodes, name="nodes"),
    re_path(rf"^nodes/{NODE}/$", nodes_views.node, name="node"),
    re_path(rf"^nodes/{NODE}/command/$", nodes_commands.command_node, name="command-node"),
    re_path(rf"^nodes/http/workers/{WORKER}/(?P<verb>drain|resume)/$", nodes_workers.order_worker, name="order-worker"),
    re_path(rf"^nodes/{NODE}/forget/$", nodes_commands.forget, name="forget-node"),
    path("login/", ThrottledLogin.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("healthz", healthz, name="healthz"),
    path("favicon.ico", favicon, name="favicon"),
]

websocket_urlpatterns = [
    live("ws/overview/", current_fragments),
    live("ws/audit/", audit_fragments, AUDIT_FIELDS),
    live(rf"^ws/streams/{QUEUE}/$", stream_fragments, STREAM_FIELDS, by_role=True),
    live("ws/nodes/", fleet_fragments),
    live(rf"^ws/nodes/{NODE}/$", node_fragments, ("worker",), by_role=True),
    live_feed(rf"^ws/nodes/{NODE}/logs/(?P<slot>{ENGINE_ID})/$", LogFeed),
    live("ws/dead-letters/", letters_fragments, (*LETTER_FIELDS, *PAGE_FIELDS), by_role=True),
    live("ws/dead-letters/<uuid:letter_id>/", letter_fragments, by_role=True),
    live("ws/jobs/", jobs_fragments, JOBS_FIELDS),
    live("ws/jobs/<uuid:job_id>/", job_fragments, by_role=True),
    live("ws/tasks/<uuid:task_id>/", task_fragments, by_role=True),
    # Without it, an unknown address is a traceback in the log and a 500.
    re_path(r"", WebsocketDenier.as_asgi()),
]
