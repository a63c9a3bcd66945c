"""The dashboard's addresses."""

from django.contrib.auth.views import LogoutView
from django.urls import path, re_path

from dalston_queue.broker.protocol.names import NAME, NODE_ID, WORKER_ID
from dalston_queue.dashboard.audit import views as audit_views
from dalston_queue.dashboard.dead_letters import actions as letters_acts
from dalston_queue.dashboard.dead_letters import replay as letters_replay
from dalston_queue.dashboard.dead_letters import views as letters_views
from dalston_queue.dashboard.job import views as job_views
from dalston_queue.dashboard.job import webhooks as job_webhooks
from dalston_queue.dashboard.jobs import views as jobs_views
from dalston_queue.dashboard.nodes import commands as nodes_commands
from dalston_queue.dashboard.nodes import views as nodes_views
from dalston_queue.dashboard.nodes import workers as nodes_workers
from dalston_queue.dashboard.overview import views as overview_views
from dalston_queue.dashboard.security.favicon import favicon
from dalston_queue.dashboard.security.healthz import healthz
from dalston_queue.dashboard.security.login import ThrottledLogin
from dalston_queue.dashboard.stream import views as stream_views
from dalston_queue.dashboard.task import actions as task_acts
from dalston_queue.dashboard.task import views as task_views

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
