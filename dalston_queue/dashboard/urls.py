"""The URLs of the dashboard: pages, their WebSockets, and the navigation. A new page is a line in each."""

from channels.security.websocket import WebsocketDenier
from django.http import HttpRequest
from django.urls import path, re_path, reverse

from dalston_queue.broker.protocol.keys import ENGINE_ID, NAME, NODE_ID, WORKER_ID
from dalston_queue.dashboard.account import views as account
from dalston_queue.dashboard.alerts import views as alerts
from dalston_queue.dashboard.alerts.render import alerts_fragments, runbook_fragments
from dalston_queue.dashboard.audit import read as audit_read
from dalston_queue.dashboard.audit import views as audit
from dalston_queue.dashboard.audit.render import audit_fragments
from dalston_queue.dashboard.dead_letters import actions as dead_letter_actions
from dalston_queue.dashboard.dead_letters import read as dead_letters_read
from dalston_queue.dashboard.dead_letters import replay as dead_letters_replay
from dalston_queue.dashboard.dead_letters import views as dead_letters
from dalston_queue.dashboard.dead_letters.render import dead_letter_fragments, dead_letters_fragments
from dalston_queue.dashboard.job import views as job
from dalston_queue.dashboard.job import webhooks
from dalston_queue.dashboard.job.render import job_fragments
from dalston_queue.dashboard.jobs import read as jobs_read
from dalston_queue.dashboard.jobs import views as jobs
from dalston_queue.dashboard.jobs.render import jobs_fragments
from dalston_queue.dashboard.limits import views as limits
from dalston_queue.dashboard.limits.render import limits_fragments
from dalston_queue.dashboard.live.consumer import live, live_feed
from dalston_queue.dashboard.live.fragments import live_page
from dalston_queue.dashboard.nodes import actions as node_actions
from dalston_queue.dashboard.nodes import views as nodes
from dalston_queue.dashboard.nodes.logs import LogFeed
from dalston_queue.dashboard.nodes.render import fleet_fragments, node_fragments
from dalston_queue.dashboard.overview.render import overview_fragments
from dalston_queue.dashboard.queue import query as queue_query
from dalston_queue.dashboard.queue import views as queue
from dalston_queue.dashboard.queue.render import queue_fragments
from dalston_queue.dashboard.security import views as security
from dalston_queue.dashboard.sign_in import views as sign_in
from dalston_queue.dashboard.task import actions as task_actions
from dalston_queue.dashboard.task import views as task
from dalston_queue.dashboard.task.render import task_fragments
from dalston_queue.dashboard.tokens import views as tokens
from dalston_queue.dashboard.transcription import actions as transcription_actions
from dalston_queue.dashboard.transcription import views as transcription
from dalston_queue.dashboard.transcription.render import transcription_fragments
from dalston_queue.dashboard.transcriptions import read as transcriptions_read
from dalston_queue.dashboard.transcriptions import views as transcriptions
from dalston_queue.dashboard.transcriptions.render import transcriptions_fragments

app_name = "dashboard"
QUEUE = rf"(?P<queue>{NAME.pattern})"
NODE = rf"(?P<node_id>{NODE_ID})"
WORKER = rf"(?P<worker_id>{WORKER_ID})"
NAVIGATION = (
    ("Overview", "overview", {"overview", "alerts", "alert"}),
    ("Transcriptions", "transcriptions", {"transcriptions", "transcription"}),
    ("Queues", "queues", {"queue"}),
    ("Jobs", "jobs", {"jobs", "job", "task"}),
    ("Dead letters", "dead-letters", {"dead-letters", "dead-letter"}),
    ("Limits", "limits", {"limits", "set-limit", "set-weight"}),
    ("Nodes", "nodes", {"nodes", "node"}),
    ("Audit", "audit", {"audit"}),
)
"""Label, page, and the pages on which it is the current one."""

urlpatterns = [
    path("", live_page(overview_fragments, "overview/page"), name="overview"),
    path("transcriptions/", transcriptions.transcriptions, name="transcriptions"),
    path("transcriptions/<uuid:transcription_id>/", transcription.transcription, name="transcription"),
    path("transcriptions/<uuid:transcription_id>/<str:verb>/", transcription_actions.end, name="end-transcription"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/<uuid:job_id>/", job.job, name="job"),
    path("jobs/<uuid:job_id>/cancel/", job.cancel, name="cancel-job"),
    path("jobs/<uuid:job_id>/webhooks/<uuid:delivery_id>/send/", webhooks.send_webhook, name="send-webhook"),
    path("tasks/<uuid:task_id>/", task.task, name="task"),
    path("tasks/<uuid:task_id>/deliveries/<int:number>/log/", task.delivery_log, name="delivery-log"),
    path("tasks/<uuid:task_id>/lines/", task.lines, name="task-lines"),
    path("tasks/<uuid:task_id>/actions/<str:action>/", task_actions.task_action, name="task-action"),
    path("queues/", queue.queues, name="queues"),
    re_path(rf"^queues/{QUEUE}/$", queue.queue_page, name="queue"),
    re_path(rf"^queues/{QUEUE}/pause/$", queue.pause_or_resume, name="pause-queue"),
    path("dead-letters/", dead_letters.dead_letters, name="dead-letters"),
    path("dead-letters/replay/", dead_letters_replay.replay_many, name="dead-letters-replay"),
    path("dead-letters/replay-selected/", dead_letter_actions.replay, name="dead-letters-replay-selected"),
    path("dead-letters/discard/", dead_letter_actions.discard, name="dead-letters-discard"),
    path("dead-letters/batches/<uuid:batch_id>/<str:verb>/", dead_letter_actions.withdraw, name="replay-batch"),
    path("dead-letters/<uuid:dead_letter_id>/", dead_letters.dead_letter, name="dead-letter"),
    path("alerts/", alerts.alerts, name="alerts"),
    path("alerts/<slug:slug>/", alerts.runbook, name="alert"),
    path("limits/", limits.limits, name="limits"),
    path("limits/set/", limits.set_one, name="set-limit"),
    path("limits/weight/", limits.weight, name="set-weight"),
    path("limits/<int:limit_id>/remove/", limits.remove, name="remove-limit"),
    path("audit/", audit.audit, name="audit"),
    path("audit/export.<str:kind>", audit.export, name="audit-export"),
    path("nodes/", live_page(fleet_fragments, "nodes/page"), name="nodes"),
    re_path(rf"^nodes/{NODE}/$", nodes.node, name="node"),
    re_path(rf"^nodes/{NODE}/command/$", node_actions.command_node, name="command-node"),
    re_path(
        rf"^nodes/http/workers/{WORKER}/(?P<verb>drain|resume)/$", node_actions.command_worker, name="command-worker"
    ),
    re_path(rf"^nodes/{NODE}/forget/$", node_actions.forget, name="forget-node"),
    path("login/", security.ThrottledLogin.as_view(), name="login"),
    path("login/provider/", sign_in.start, name="sign-in"),
    path("login/provider/back/", sign_in.back, name="sign-in-back"),
    path("login/provider/sign-out/", sign_in.out, name="sign-in-out"),
    path("password/", account.ChangePassword.as_view(), name="password"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/create/", tokens.create, name="create-token"),
    path("tokens/<uuid:token_id>/revoke/", tokens.revoke, name="revoke-token"),
    path("logout/", security.Logout.as_view(), name="logout"),
    path("favicon.ico", security.favicon, name="favicon"),
]

websocket_urlpatterns = [
    live("ws/overview/", overview_fragments),
    live("ws/alerts/", alerts_fragments),
    live("ws/alerts/<slug:slug>/", runbook_fragments),
    live("ws/audit/", audit_fragments, audit_read.FIELDS),
    live("ws/limits/", limits_fragments, by_role=True),
    live(rf"^ws/queues/{QUEUE}/$", queue_fragments, queue_query.FIELDS, by_role=True),
    live("ws/nodes/", fleet_fragments),
    live(rf"^ws/nodes/{NODE}/$", node_fragments, ("worker",), by_role=True),
    live_feed(rf"^ws/nodes/{NODE}/logs/(?P<slot>{ENGINE_ID})/$", LogFeed),
    live("ws/dead-letters/", dead_letters_fragments, dead_letters_read.ALL_FIELDS, by_role=True),
    live("ws/dead-letters/<uuid:dead_letter_id>/", dead_letter_fragments, by_role=True),
    live("ws/transcriptions/", transcriptions_fragments, transcriptions_read.FIELDS),
    live("ws/transcriptions/<uuid:transcription_id>/", transcription_fragments),
    live("ws/jobs/", jobs_fragments, jobs_read.FIELDS),
    live("ws/jobs/<uuid:job_id>/", job_fragments, by_role=True),
    live("ws/tasks/<uuid:task_id>/", task_fragments, by_role=True),
    # Otherwise an unknown URL is a traceback in the log and a 500.
    re_path(r"", WebsocketDenier.as_asgi()),
]


def navigation(request: HttpRequest) -> dict[str, object]:
    """For templates: label, page, URL, and whether it is the current page."""
    match = request.resolver_match
    here = match.url_name if match else None
    links = [(label, page, reverse(f"dashboard:{page}"), here in pages) for label, page, pages in NAVIGATION]
    return {"navigation": links}
