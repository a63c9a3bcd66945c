"""All settings, in one file. Every value comes from the environment; docs/settings.md lists them with their checks.

DALSTON_DEV=1 marks a development run (`./dev up` and the tests set it). Everything else is production, and strict: the
checks in checks.py refuse a weak secret, DEBUG, an open host list and a missing database.

A node install has no database driver. There only the supervisor's app is loaded, and nothing here needs more than Django.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

from dalston_queue import defaults
from dalston_site import env, logs
from dalston_site.declared import name, number, whole

BASE_DIR = Path(__file__).resolve().parent.parent
# In an installed wheel pages and static files lie in the package, and `var` beside the packages' own folder: each
# installation has its own collected files, so that an older one still works after an upgrade.
INSTALLED = not (BASE_DIR / "pyproject.toml").exists()
FILES_DIR = BASE_DIR / "dalston_site" if INSTALLED else BASE_DIR
VAR_DIR = Path(sys.prefix if INSTALLED else BASE_DIR) / "var"

# --- What kind of run this is -----------------------------------------------------------------------------------------
DALSTON_DEV = env.flag("DALSTON_DEV", False)
# The supervisor is the same process on every install, and starts in half the time without the web packages.
DALSTON_SERVER_INSTALL = find_spec("psycopg") is not None and sys.argv[1:2] != ["runsupervisor"]
DEBUG = env.flag("DALSTON_DEBUG", False)
# Only for cookies and sessions of the web process. A node has none.
SECRET_KEY = env.text("DALSTON_SECRET_KEY", "for-development-only" if DALSTON_DEV else "")
ALLOWED_HOSTS = env.words("DALSTON_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"] if DALSTON_DEV else [])
CSRF_TRUSTED_ORIGINS = env.words("DALSTON_TRUSTED_ORIGINS", [])

# --- Servers ----------------------------------------------------------------------------------------------------------
REDIS_URL = env.redis_url("REDIS_URL")
DATABASES = {"default": env.database("DATABASE_URL")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DALSTON_DB_POOL_SIZE = whole(
    "DALSTON_DB_POOL_SIZE", "E101", 0, "Database connections that a process keeps in a pool; 0: one per thread. The web process uses 10.", low=0, high=500,
)  # fmt: skip
if DALSTON_DB_POOL_SIZE and "OPTIONS" in DATABASES["default"]:
    # After 5 s of failures the next request starts a new attempt; without it the pool's backoff would grow.
    _POOL = {"min_size": 1, "max_size": DALSTON_DB_POOL_SIZE, "timeout": 5, "reconnect_timeout": 5}
    _TIMEOUTS = {"connect_timeout": 2, "tcp_user_timeout": 5000}
    DATABASES["default"]["OPTIONS"] = {**_TIMEOUTS, **DATABASES["default"]["OPTIONS"], "pool": _POOL}
    DATABASES["default"]["ENGINE"] = "dalston_site.postgres"
DALSTON_IDLE_TRANSACTION_S = number(
    "DALSTON_IDLE_TRANSACTION_S", "E105", 30.0, "Postgres ends a transaction that does nothing for this long: a stopped process must not hold its locks.", low=1
)  # fmt: skip

# --- Artifacts --------------------------------------------------------------------------------------------------------
DALSTON_ARTIFACTS_URL = name(
    "DALSTON_ARTIFACTS_URL", "E200", "", "Where uploads and large results are kept (docs/artifacts.md): `file:///folder` that all machines share, or `s3://bucket/prefix`. Empty: none, and uploads are refused; in development a folder in var/.", pattern=r"(file:///.+)?(s3://[a-z0-9][a-z0-9.-]+(/.*)?)?"
) or ((VAR_DIR / "artifacts").as_uri() if DALSTON_DEV else "")  # fmt: skip
# fmt: off
DALSTON_ARTIFACT_GRACE_S = whole("DALSTON_ARTIFACT_GRACE_S", "E209", 3600, "Seconds since a file was last stored, before it is deleted because its last job was.", low=60)
DALSTON_ARTIFACT_ORPHAN_S = whole("DALSTON_ARTIFACT_ORPHAN_S", "E214", 86_400, "The same for a file that no job ever referred to. Longer than an engine's result may wait for Redis.", low=60)
# fmt: on
DALSTON_STATEMENT_TIMEOUT_S = number(
    "DALSTON_STATEMENT_TIMEOUT_S",
    "E306",
    60.0,
    "Postgres ends a statement of a web process that takes longer. Searches have 5 s.",
    low=6,
)  # fmt: skip

# --- Redis keys -------------------------------------------------------------------------------------------------------
DALSTON_REDIS_PREFIX = name(
    "DALSTON_REDIS_PREFIX", "E102", defaults.REDIS_PREFIX, "First part of every Redis key; docs/redis-keys.md has the patterns for an ACL. Two installations on one Redis need two prefixes.", pattern=r"[a-z][a-z0-9_-]{0,60}"
)  # fmt: skip
DALSTON_REDIS_CLUSTER = env.flag("DALSTON_REDIS_CLUSTER", False)
DALSTON_REDIS_URLS = env.text("DALSTON_REDIS_URLS")

# fmt: off
# --- Liveness ---------------------------------------------------------------------------------------------------------
DALSTON_HEARTBEAT_S = number("DALSTON_HEARTBEAT_S", "E110", defaults.HEARTBEAT_S, "Seconds between two beats of a node and its engines.", low=0.05)
DALSTON_DEAD_AFTER_S = number("DALSTON_DEAD_AFTER_S", "E111", 20.0, "A beat counter that stands still this long, in the leader's own polls, means dead.", low=0.1)
DALSTON_LEADER_TTL_S = number("DALSTON_LEADER_TTL_S", "E112", 30.0, "How long a leader's lease lasts without renewal.", low=0.5)
DALSTON_STUCK_AFTER_S = number("DALSTON_STUCK_AFTER_S", "E260", 60.0, "A loop of an orchestrator that stands still this long fails its /healthz, a duty of housekeeping after five times as long; an event that waits this long for an orchestrator shows in /readyz.", low=1)

# --- Recovery ---------------------------------------------------------------------------------------------------------
DALSTON_RECOVERY_INTERVAL_S = number("DALSTON_RECOVERY_INTERVAL_S", "E120", 5.0, "Seconds between two polls of the leading orchestrator for dead engines.", low=0.05)
DALSTON_SCAN_INTERVAL_S = number("DALSTON_SCAN_INTERVAL_S", "E121", 60.0, "Seconds between two runs of the scanner and the reconciler.", low=1)
DALSTON_RECLAIM_STAGGER_MS = whole("DALSTON_RECLAIM_STAGGER_MS", "E336", 100, "Milliseconds between two tasks that are reclaimed from one lost node; 0: all at once.", low=0, high=10_000)
DALSTON_STALE_THRESHOLD_MS = whole("DALSTON_STALE_THRESHOLD_MS", "E122", defaults.STALE_THRESHOLD_MS, "Idle time after which an idle engine may reclaim a task whose owner sends no heartbeat, when no judge is alive.", low=1000)
DALSTON_ABSOLUTE_TIMEOUT_MS = whole("DALSTON_ABSOLUTE_TIMEOUT_MS", "E123", 1_800_000, "An entry not renewed for this long (or for the task's own timeout, if longer) fails with the cause timeout, even if its engine is alive.", low=1000)
DALSTON_DEADLINE_GRACE_S = number("DALSTON_DEADLINE_GRACE_S", "E124", 30.0, "Seconds after a task's deadline before the scanner times it out, if the supervisor has not.", low=0)
DALSTON_WORKER_DEADLINE_GRACE_S = number("DALSTON_WORKER_DEADLINE_GRACE_S", "E337", 1.0, "The same for a worker over HTTP, which has no supervisor: the leading orchestrator times its task out at its next poll.", low=0)
DALSTON_MAX_DELIVERIES = whole("DALSTON_MAX_DELIVERIES", "E125", defaults.MAX_DELIVERIES, "Deliveries of one attempt before it is a dead letter, when the engine crashed.", high=100)
DALSTON_MAX_DELIVERIES_NODE_LOST = whole("DALSTON_MAX_DELIVERIES_NODE_LOST", "E126", defaults.MAX_DELIVERIES_NODE_LOST, "The same, when the node or its network was lost.", high=1000)

# --- Scheduling -------------------------------------------------------------------------------------------------------
DALSTON_SCHEDULER_INTERVAL_S = number("DALSTON_SCHEDULER_INTERVAL_S", "E130", 1.0, "Seconds between two polls for scheduled tasks that are due; down to half of it if one is due before.", low=0.05)
DALSTON_SCHEDULER_BATCH = whole("DALSTON_SCHEDULER_BATCH", "E131", 100, "The largest number of tasks per poll.", high=10_000)
DALSTON_PROMOTE_INTERVAL_S = number("DALSTON_PROMOTE_INTERVAL_S", "E132", 60.0, "Seconds between two promotions of tasks that waited long.", low=1)
DALSTON_LOW_TO_MEDIUM_S = number("DALSTON_LOW_TO_MEDIUM_S", "E182", 600.0, "Wait in seconds after which a task of low priority counts as medium.", low=1)
DALSTON_MEDIUM_TO_HIGH_S = number("DALSTON_MEDIUM_TO_HIGH_S", "E183", 1200.0, "Wait in seconds, since it was first enqueued, after which a task of medium priority counts as high.", low=1)
DALSTON_WINDOW = whole("DALSTON_WINDOW", "E184", 4, "Entries that each lane and tier holds in Redis at least, while more wait in Postgres. It holds two for each slot of its engines, if that is more.", high=10_000)
DALSTON_PROMOTE_BATCH = whole("DALSTON_PROMOTE_BATCH", "E133", 100, "Tasks that are promoted together.", high=10_000)

# --- Attempts ---------------------------------------------------------------------------------------------------------
DALSTON_RETRIES_HIGH = whole("DALSTON_RETRIES_HIGH", "E140", 5, "Retries of a failed task of high priority, unless it names its own.", low=0, high=100)
DALSTON_RETRIES_MEDIUM = whole("DALSTON_RETRIES_MEDIUM", "E141", 3, "The same, medium.", low=0, high=100)
DALSTON_RETRIES_LOW = whole("DALSTON_RETRIES_LOW", "E142", 2, "The same, low.", low=0, high=100)
DALSTON_TIMEOUT_HIGH_S = whole("DALSTON_TIMEOUT_HIGH_S", "E143", 300, "Seconds a task of high priority may run, unless it names its own timeout.")
DALSTON_TIMEOUT_MEDIUM_S = whole("DALSTON_TIMEOUT_MEDIUM_S", "E144", 600, "The same, medium.")
DALSTON_TIMEOUT_LOW_S = whole("DALSTON_TIMEOUT_LOW_S", "E145", 900, "The same, low.")
DALSTON_TIMEOUT_GROWTH = number("DALSTON_TIMEOUT_GROWTH", "E146", 1.5, "A task's timeout is multiplied by this after each timeout, and after each `gpu_oom`.", low=1, high=10)
DALSTON_TIMEOUT_MAX_S = whole("DALSTON_TIMEOUT_MAX_S", "E147", 3600, "The longest timeout by growth.")
DALSTON_BACKOFF_BASE_S = number("DALSTON_BACKOFF_BASE_S", "E148", 5.0, "First delay before a retry; it doubles, with full jitter.", low=0)
DALSTON_BACKOFF_CAP_HIGH_S = number("DALSTON_BACKOFF_CAP_HIGH_S", "E330", 10.0, "The longest delay before a retry of a task of high priority.", low=0)
DALSTON_BACKOFF_CAP_MEDIUM_S = number("DALSTON_BACKOFF_CAP_MEDIUM_S", "E331", 30.0, "The same, medium.", low=0)
DALSTON_BACKOFF_CAP_LOW_S = number("DALSTON_BACKOFF_CAP_LOW_S", "E332", 60.0, "The same, low.", low=0)
DALSTON_RETRY_BUDGETS = name("DALSTON_RETRY_BUDGETS", "E333", "error=task,timeout=task,gpu_oom=task,rate_limited=task", "Retries by the cause of the failure: a number, or `task` for the task's own. If a task has fewer, those count.", pattern=r"(error|timeout|gpu_oom|rate_limited)=(task|[0-9]{1,3})(,(error|timeout|gpu_oom|rate_limited)=(task|[0-9]{1,3}))*")

# --- What the API accepts ---------------------------------------------------------------------------------------------
DALSTON_IDEMPOTENCY_WINDOW_S = whole("DALSTON_IDEMPOTENCY_WINDOW_S", "E150", 86_400, "How long an idempotency key is remembered.")
DALSTON_MAX_PAYLOAD_BYTES = whole("DALSTON_MAX_PAYLOAD_BYTES", "E151", 262_144, "The largest `parameters` of a task or job, as JSON; put larger input where its engine can read it, and send its address.", low=1024, high=16_777_216)
DALSTON_MAX_RESULT_BYTES = whole("DALSTON_MAX_RESULT_BYTES", "E152", defaults.MAX_RESULT_BYTES, "The largest result kept in the task's row.", low=1024, high=16_777_216)
DALSTON_RATE_LIMITED_PER_MINUTE = whole("DALSTON_RATE_LIMITED_PER_MINUTE", "E153", 100, "Requests a minute for tokens with the preset `limited`.")
DALSTON_RATE_LIMITED_PER_HOUR = whole("DALSTON_RATE_LIMITED_PER_HOUR", "E154", 1000, "Requests an hour for tokens with the preset `limited`.")
DALSTON_BACKPRESSURE_WAITING = whole("DALSTON_BACKPRESSURE_WAITING", "E155", 10_000, "Tasks of a project that are not over and not started in a queue, with those of the request, above which it needs high priority or a token with the preset `listed`; others get 429 with Retry-After.")
DALSTON_TOKEN_RATE_PRESET = name("DALSTON_TOKEN_RATE_PRESET", "E339", "none", "The rate preset of a new token that names none.", pattern="none|limited|listed")
DALSTON_BACKPRESSURE_HIGH_ONLY = whole("DALSTON_BACKPRESSURE_HIGH_ONLY", "E156", 50_000, "Above this it needs high priority.")
DALSTON_BACKPRESSURE_LISTED_ONLY = whole("DALSTON_BACKPRESSURE_LISTED_ONLY", "E157", 100_000, "Above this it needs both.")
DALSTON_BACKPRESSURE_PROJECT = whole("DALSTON_BACKPRESSURE_PROJECT", "E305", 200_000, "Tasks of a project that wait in all queues together, above which it gets 429.")
DALSTON_MAX_EVENT_STREAMS = whole("DALSTON_MAX_EVENT_STREAMS", "E158", 500, "Subscribers of jobs (`GET /jobs/{id}/events`) per web process; the next gets 503.", high=100_000)
DALSTON_MAX_UPLOAD_BYTES = whole("DALSTON_MAX_UPLOAD_BYTES", "E215", 2_147_483_648, "The largest recording that may be uploaded.", low=1024, high=1_099_511_627_776)
DALSTON_MAX_STORED_BYTES = whole("DALSTON_MAX_STORED_BYTES", "E308", 107_374_182_400, "Bytes that the files of one project may take in the artifact store; its next upload or job gets 507.", low=1024)
DALSTON_MIN_FREE_DISK_RATIO = number("DALSTON_MIN_FREE_DISK_RATIO", "E309", 0.05, "Share of the artifact store's disk that uploads leave free, if the store is a folder; below it they get 507.", low=0, high=1)
DALSTON_MAX_UPLOADS = whole("DALSTON_MAX_UPLOADS", "E216", 100, "Uploads at a time per web process; each holds a thread. The next gets 503.", high=10_000)
DALSTON_TRANSCRIPTION_WAIT_S = whole("DALSTON_TRANSCRIPTION_WAIT_S", "E217", 600, "Seconds that a request waits for its transcript, such as one of OpenAI's client; then it gets 504.", high=86_400)
DALSTON_AUDIO_ALLOWED_NETWORKS = env.networks("DALSTON_AUDIO_ALLOWED_NETWORKS")
DALSTON_MAX_WAITING_POLLS = whole("DALSTON_MAX_WAITING_POLLS", "E159", 200, "Waiting polls of workers over HTTP per web process; each holds a thread and a connection to Redis. The next gets 503.", high=10_000)

# --- Metrics ----------------------------------------------------------------------------------------------------------
# fmt: on
# Of the orchestrator and housekeeping processes: the port of /metrics. Empty: none.
DALSTON_METRICS_ADDRESS = env.address("DALSTON_METRICS_ADDRESS")
# Of the web process: who may read /metrics. By default no client; in development every program on this machine.
DALSTON_METRICS_TOKEN = env.secret("DALSTON_METRICS_TOKEN")
DALSTON_METRICS_NETWORKS = env.networks("DALSTON_METRICS_NETWORKS", ["127.0.0.0/8", "::1"] if DALSTON_DEV else [])

# fmt: off
# --- Shares: what one project may take from the others ----------------------------------------------------------------
DALSTON_MAX_QUEUES = whole("DALSTON_MAX_QUEUES", "E300", 1000, "Queues in all. A submission that names one more gets 422; queues that are not used are forgotten.", low=1, high=100_000)
DALSTON_MAX_QUEUES_PER_PROJECT = whole("DALSTON_MAX_QUEUES_PER_PROJECT", "E301", 100, "Queues that one project may be the first to use.", high=100_000)
DALSTON_MAX_LANES_PER_PROJECT = whole("DALSTON_MAX_LANES_PER_PROJECT", "E302", 16, "Combinations of required_capabilities in one queue that one project may be the first to use. A queue has 31.", high=31)
DALSTON_FORGET_QUEUES_S = whole("DALSTON_FORGET_QUEUES_S", "E303", 3600, "Seconds after which an empty queue or combination of capabilities that is not used is forgotten.", low=120)
DALSTON_SHOWN_QUEUES = whole("DALSTON_SHOWN_QUEUES", "E304", 100, "Queues that the overview, `/queue/stats`, `/metrics` and the samples show: those that engines serve, then the busiest. The others have their pages, and `/streams`.", high=10_000)

DALSTON_MAX_REDIS_BYTES = whole("DALSTON_MAX_REDIS_BYTES", "E307", 67_108_864, "Bytes in Redis that the inputs of one project's tasks may take, counting those over 8 KiB; above, its tasks wait in Postgres, and those of other projects go on. The last one may exceed it.", low=65_536)

# --- Logins ------------------------------------------------------------------------------------------------------------
DALSTON_LOGIN_TRIES_ACCOUNT = whole("DALSTON_LOGIN_TRIES_ACCOUNT", "E170", 10, "Tries to log in to one account within the window; the next is refused with the time of the next try.", high=10_000)
DALSTON_LOGIN_TRIES_ADDRESS = whole("DALSTON_LOGIN_TRIES_ADDRESS", "E171", 50, "The same from one address (for IPv6: one /64).", high=10_000)
DALSTON_LOGIN_WINDOW_S = whole("DALSTON_LOGIN_WINDOW_S", "E172", 300, "The window, in seconds.", high=86_400)

# --- Sign-in (docs/operate/sign-in.md) ----------------------------------------------------------------------------------------
DALSTON_LOCAL_LOGIN = env.flag("DALSTON_LOCAL_LOGIN", True)
DALSTON_SESSION_S = whole("DALSTON_SESSION_S", "E350", 1_209_600, "Seconds that a session lasts after a login with a password.", low=60, high=31_536_000)
SESSION_COOKIE_AGE = DALSTON_SESSION_S
DALSTON_OIDC_ISSUER = name("DALSTON_OIDC_ISSUER", "E351", "", "Issuer of an OpenID Connect provider, exactly as in its discovery document. Empty: sign-in with a password only.", pattern=r"(https://[^\s?#]+|http://(localhost|127\.0\.0\.1)(:[0-9]+)?(/[^\s?#]*)?)?")
DALSTON_OIDC_CLIENT_ID = name("DALSTON_OIDC_CLIENT_ID", "E352", "", "The id that the provider gave to this installation.", pattern=r"[!-~]{0,255}")
DALSTON_OIDC_CLIENT_SECRET = env.text("DALSTON_OIDC_CLIENT_SECRET")
DALSTON_OIDC_LABEL = env.text("DALSTON_OIDC_LABEL", "Single sign-on")
DALSTON_OIDC_SCOPES = name("DALSTON_OIDC_SCOPES", "E354", "openid profile email", "Scopes that are asked for, separated by blanks; some providers have one for groups.", pattern=r"openid( [!-~]+)*")
DALSTON_OIDC_NAME_CLAIM = name("DALSTON_OIDC_NAME_CLAIM", "E355", "preferred_username", "The claim that names a new account.", pattern=r"[!-~]{1,200}")
DALSTON_OIDC_ROLES_CLAIM = name("DALSTON_OIDC_ROLES_CLAIM", "E356", "groups", "The claim with the groups of a person; `realm_access.roles` is one inside another.", pattern=r"[!-~]{1,200}")
DALSTON_OIDC_ROLES = env.pairs("DALSTON_OIDC_ROLES")
DALSTON_OIDC_LINK_BY_NAME = env.flag("DALSTON_OIDC_LINK_BY_NAME", False)
DALSTON_OIDC_SESSION_S = whole("DALSTON_OIDC_SESSION_S", "E357", 43_200, "Seconds that a session lasts after a sign-in by the provider; then its groups are read again.", low=60, high=31_536_000)
DALSTON_OIDC_TIMEOUT_S = number("DALSTON_OIDC_TIMEOUT_S", "E358", 5.0, "Timeout of one answer of the provider, in seconds.", low=0.1, high=60)

# --- Webhooks ---------------------------------------------------------------------------------------------------------
DALSTON_WEBHOOK_ATTEMPTS = whole("DALSTON_WEBHOOK_ATTEMPTS", "E190", 12, "Attempts to deliver a webhook before it is failed for good.", high=100)
DALSTON_WEBHOOK_TIMEOUT_S = number("DALSTON_WEBHOOK_TIMEOUT_S", "E191", 10.0, "Timeout of a receiver's answer, in seconds.", low=0.1, high=300)
DALSTON_WEBHOOK_BACKOFF_BASE_S = number("DALSTON_WEBHOOK_BACKOFF_BASE_S", "E192", 5.0, "Delay after the first failed attempt; it doubles, and half of it is jitter.", low=0.1)
DALSTON_WEBHOOK_BACKOFF_CAP_S = number("DALSTON_WEBHOOK_BACKOFF_CAP_S", "E193", 3600.0, "The longest delay between two attempts.", low=0.1)
DALSTON_WEBHOOK_ALLOWED_NETWORKS = env.networks("DALSTON_WEBHOOK_ALLOWED_NETWORKS")

# --- Alerts: the thresholds above which they fire (dalston_queue/alerts/table.py), and who is notified ----------------------
DALSTON_ALERT_NO_WORKERS_S = whole("DALSTON_ALERT_NO_WORKERS_S", "E240", 120, "Seconds without a ready engine.", low=0)
DALSTON_ALERT_HIGH_DEPTH = whole("DALSTON_ALERT_HIGH_DEPTH", "E241", 1000, "Waiting tasks of high priority.", low=0)
DALSTON_ALERT_FAILURE_RATE = number("DALSTON_ALERT_FAILURE_RATE", "E242", 0.25, "Share of failed attempts, over 5 min.", low=0, high=1)
DALSTON_ALERT_DEAD_LETTERS_PER_MINUTE = number("DALSTON_ALERT_DEAD_LETTERS_PER_MINUTE", "E243", 10.0, "New dead letters a minute.", low=0)
DALSTON_ALERT_UTILISATION = number("DALSTON_ALERT_UTILISATION", "E244", 0.9, "Share of the slots of ready engines in use, for 10 min.", low=0, high=1)
DALSTON_ALERT_LOW_WAIT_S = whole("DALSTON_ALERT_LOW_WAIT_S", "E245", 1500, "Age in seconds of the oldest waiting task of low priority.", low=1)
DALSTON_ALERT_DEPTH = whole("DALSTON_ALERT_DEPTH", "E246", 5000, "Waiting tasks of one queue and priority.", low=0)
DALSTON_ALERT_HIGH_WAIT_S = whole("DALSTON_ALERT_HIGH_WAIT_S", "E247", 60, "Age in seconds of the oldest waiting task of high priority.", low=1)
DALSTON_ALERT_AGE_P95_S = whole("DALSTON_ALERT_AGE_P95_S", "E248", 600, "Age in seconds that 1 of 20 waiting tasks of a queue and priority exceeds.", low=1)
DALSTON_ALERT_RETRY_RATE = number("DALSTON_ALERT_RETRY_RATE", "E249", 0.15, "Retries for each completed task, over 5 min.", low=0)
DALSTON_ALERT_BREAKERS = whole("DALSTON_ALERT_BREAKERS", "E250", 5, "Engines whose circuit breaker is open.", low=0)
DALSTON_ALERT_UNHEALTHY_RATIO = number("DALSTON_ALERT_UNHEALTHY_RATIO", "E251", 0.1, "Share of the engines that are unhealthy.", low=0, high=1)
DALSTON_ALERT_PROBE_FAILURES_PER_MINUTE = number("DALSTON_ALERT_PROBE_FAILURES_PER_MINUTE", "E252", 10.0, "Failed health probes a minute.", low=0)
DALSTON_ALERT_RECOVERIES_PER_MINUTE = number("DALSTON_ALERT_RECOVERIES_PER_MINUTE", "E253", 1.0, "Tasks reclaimed from dead engines a minute.", low=0)
DALSTON_ALERT_REFUSED_PER_MINUTE = number("DALSTON_ALERT_REFUSED_PER_MINUTE", "E254", 1.0, "Refused results a minute.", low=0)
DALSTON_ALERT_STALLED_S = whole("DALSTON_ALERT_STALLED_S", "E255", 900, "Seconds in which tasks wait in a queue and no attempt ends.", low=0)
DALSTON_ALERT_NO_LEADER_S = whole("DALSTON_ALERT_NO_LEADER_S", "E256", 60, "Seconds without a leading orchestrator.", low=0)
DALSTON_ALERT_DISK_USED_RATIO = number("DALSTON_ALERT_DISK_USED_RATIO", "E257", 0.9, "Share in use of the disk of a node, or of the artifact store.", low=0, high=1)
DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE = whole("DALSTON_ALERT_DEAD_LETTERS_OF_CAUSE", "E258", 50, "Open dead letters of one day with the same cause.", low=0)
DALSTON_ALERT_DEAD_LETTERS_RETRIABLE = whole("DALSTON_ALERT_DEAD_LETTERS_RETRIABLE", "E259", 100, "Open dead letters of one day that may pass if they are replayed.", low=0)
DALSTON_ALERT_EMAILS = env.words("DALSTON_ALERT_EMAILS", [])
DALSTON_ALERT_WEBHOOK_URL = env.text("DALSTON_ALERT_WEBHOOK_URL")
DALSTON_ALERT_WEBHOOK_TOKEN = env.text("DALSTON_ALERT_WEBHOOK_TOKEN")
DALSTON_ALERTS_MUTED = env.words("DALSTON_ALERTS_MUTED", [])
DALSTON_PUBLIC_URL = env.text("DALSTON_PUBLIC_URL")  # of the dashboard, for links in mails
# Django's mail settings.
EMAIL_HOST = env.text("DALSTON_EMAIL_HOST", "localhost")
EMAIL_PORT = env.integer("DALSTON_EMAIL_PORT", 25)
EMAIL_HOST_USER = env.text("DALSTON_EMAIL_USER")
EMAIL_HOST_PASSWORD = env.text("DALSTON_EMAIL_PASSWORD")
EMAIL_USE_TLS = env.flag("DALSTON_EMAIL_TLS", False)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = env.text("DALSTON_EMAIL_FROM", "dalston@localhost")

# --- Housekeeping and engines -----------------------------------------------------------------------------------------
DALSTON_DEAD_LETTER_DAYS = whole("DALSTON_DEAD_LETTER_DAYS", "E160", 30, "Days that a dead letter is kept.", high=3650)
DALSTON_HISTORY_DAYS = whole("DALSTON_HISTORY_DAYS", "E163", 90, "Days that a finished job is kept with its tasks and their history.", high=3650)
DALSTON_BREAKER_FAILURES = whole("DALSTON_BREAKER_FAILURES", "E161", defaults.BREAKER_FAILURES, "Failures in a row that open the circuit breaker of an engine: it claims nothing.", high=1000)
DALSTON_BREAKER_OPEN_S = number("DALSTON_BREAKER_OPEN_S", "E162", defaults.BREAKER_OPEN_S, "Seconds until such an engine claims trial tasks.", low=0.1)
DALSTON_BREAKER_TRIALS = whole("DALSTON_BREAKER_TRIALS", "E338", defaults.BREAKER_TRIALS, "Trial tasks that must succeed in a row until the circuit breaker is closed again; one that fails opens it for as long as before.", high=100)

# --- Engines for audio ------------------------------------------------------------------------------------------------
DALSTON_MODELS_DIR = env.text("DALSTON_MODELS_DIR")
DALSTON_ENGINE_THREADS = whole("DALSTON_ENGINE_THREADS", "E220", defaults.ENGINE_THREADS, "CPU threads that one process of an engine computes with.", high=256)
DALSTON_AUDIO_MAX_S = number("DALSTON_AUDIO_MAX_S", "E221", defaults.AUDIO_MAX_S, "The longest recording that is transcribed, in seconds; a longer one is rejected.", low=1)
DALSTON_AUDIO_CHUNK_S = number("DALSTON_AUDIO_CHUNK_S", "E222", defaults.AUDIO_CHUNK_S, "A longer recording is cut in silences into chunks of at most this length, which several engines transcribe at once.", low=10)
DALSTON_AUDIO_MAX_CHANNELS = whole("DALSTON_AUDIO_MAX_CHANNELS", "E223", defaults.AUDIO_MAX_CHANNELS, "Channels of a recording; one with more is rejected.", high=64)
# fmt: on

# --- Django -----------------------------------------------------------------------------------------------------------
INSTALLED_APPS = ["dalston_site", "supervisor"]
if DALSTON_SERVER_INSTALL:
    from dalston_site.huey import make_huey

    INSTALLED_APPS += [
        "dalston_queue",
        "dalston_queue.admin_site.DalstonAdminConfig",
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.staticfiles",
        "channels",
        "django_htmx",
        "ninja",  # its docs page then comes from our own static files, not from a CDN
        "huey.contrib.djhuey",
    ]
    ROOT_URLCONF = "dalston_site.urls"
    CSRF_FAILURE_VIEW = "dalston_queue.dashboard.security.views.refused_form"
    ASGI_APPLICATION = "dalston_site.asgi.application"
    HUEY = make_huey()

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "dalston_queue.metrics.web.MetricsMiddleware",
    "dalston_queue.api.errors.middleware.TraceMiddleware",
    "dalston_queue.dashboard.security.middleware.ContentSecurityPolicyMiddleware",
    "dalston_queue.dashboard.security.middleware.UnavailableMiddleware",
    "dalston_queue.dashboard.security.middleware.NulMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "dalston_queue.dashboard.security.middleware.HostMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [FILES_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "dalston_queue.dashboard.security.roles.role_context",
                "dalston_queue.dashboard.urls.navigation",
            ]
        },
    }
]
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "dalston_queue.accounts.roles.RolePermissions",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = Path(env.text("DALSTON_STATIC_ROOT", str(VAR_DIR / "static")))
# In an installation they lie in an app, where Django finds them by itself.
STATICFILES_DIRS = [] if INSTALLED else [FILES_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DALSTON_DEV
        else "dalston_site.static_files.CollectedOrOwn"
    },
}
# In development files are served from where they are edited; production runs `manage.py collectstatic` first, and serves
# what that has not collected from the package.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DALSTON_DEV

# --- HTTPS: on in production, off with DALSTON_HTTPS=0 for a trusted plain network ------------------------------------
DALSTON_HTTPS = env.flag("DALSTON_HTTPS", not DALSTON_DEV)
SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = DALSTON_HTTPS
SECURE_REDIRECT_EXEMPT = [r"^metrics$"]  # Prometheus asks from inside, without TLS and by IP address
SECURE_HSTS_SECONDS = 31_536_000 if DALSTON_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = DALSTON_HTTPS
# No preload: browsers keep such a list for years, for a whole domain. The proxy may add it, and then knowingly.
SILENCED_SYSTEM_CHECKS = ["security.W021"]
X_FRAME_OPTIONS = "DENY"
# The largest request of all: a batch of jobs, or one payload of the largest size that may be set.
DATA_UPLOAD_MAX_MEMORY_SIZE = 17 * 1024 * 1024

LOG_LEVEL = env.choice("DALSTON_LOG_LEVEL", "INFO", ["DEBUG", "INFO", "WARNING", "ERROR"])
LOGGING = logs.config(json=not DALSTON_DEV, level=LOG_LEVEL)
