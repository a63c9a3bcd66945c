"""Runbooks: what each alert means, what to check, and what to press. The dashboard shows them, and docs/runbooks/ has them.

A step names a page of the dashboard and, if there is one, the button on it, word for word: tests check both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    text: str
    page: str = ""  # in dashboard/urls.py: overview, queues, queue, nodes, node, dead-letters, limits
    button: str = ""  # its label, on that page
    shows: str = ""  # the heading on that page under which the answer is


@dataclass(frozen=True, slots=True)
class Runbook:
    means: str
    look: tuple[Step, ...]
    press: tuple[Step, ...]


_ENGINES = Step("Read why each engine is not ready: its state, its last exits, its log.", "nodes")
_EXITS = Step("Read the last exits and the log of the engines that are not ready.", "node")
_RESTART = Step("Once its reason is mended, open Restart… of the engine.", "node", "Restart now")
_RESUME = Step("If the node was drained, let it work again.", "node", "Resume")
_UNCORDON = Step("If the node was cordoned, let its engines claim again.", "node", "Uncordon")
_SCALE = Step("Run more processes of the engine, if the GPU has room.", "node", "Scale")
_CORDON = Step("Take a node that fails out of service: its engines finish and claim nothing more.", "node", "Cordon")
_DRAIN = Step("Stop all engines of a sick node; what does not finish is released to other nodes.", "node", "Drain")
_PAUSE = Step("Stop the queue while you mend it: what runs goes on, and nothing is claimed.", "queue", "Pause queue")
_GROUPS = Step("Read the groups of similar errors, the newest first.", "dead-letters")
_REPLAY = Step("Replay a group once its reason is mended. It can be undone for a while.", "dead-letters", "Replay…")
_DISCARD = Step(
    "Discard what will never pass: open a group, choose, give a reason.", "dead-letters-list", "Discard selected"
)
_LIMIT = Step("Keep a project or a queue to fewer tasks in flight or starts a minute.", "limits", "Set limit")
_WEIGHT = Step("Give a project a larger or smaller share of the slots.", "limits", "Set weight")
_QUEUE = Step("See what waits and what runs, with idle times and leases.", "queue")
_DUTIES = Step("Read leaders and duties at the end of the overview.", "overview", shows="Leaders and duties")
_PATTERNS = Step(
    "See what they have in common: a cause, a queue, a node, a project, an hour? A click shows those only.",
    "dead-letters",
    shows="Patterns",
)
_REPLAY_PATTERN = Step(
    "Replay all that have it in common, or all that may pass, once the reason is mended.", "dead-letters", "Replay…"
)

RUNBOOKS: Mapping[str, Runbook] = {
    "DalstonNoActiveWorkers": Runbook(
        "No engine takes work. Submissions are accepted and wait; nothing runs.",
        (
            _ENGINES,
            Step("No node at all: start `manage.py runsupervisor` on one, and check its REDIS_URL."),
        ),
        (_RESUME, _UNCORDON, _RESTART),
    ),
    "DalstonHighPriorityQueueDeep": Runbook(
        "More urgent work waits than engines can take soon. Low priorities wait longer, until ageing promotes them.",
        (
            _QUEUE,
            Step(
                "Compare what comes in and what goes out, and the share of slots in use.", "overview", shows="Last hour"
            ),
        ),
        (_SCALE, _LIMIT, _WEIGHT),
    ),
    "DalstonFailureRateHigh": Runbook(
        "Attempts fail more often than they should: a bad release of an engine, a missing model or file, a full GPU, or a"
        " client that sends what cannot work.",
        (
            Step("When did it begin, and do attempts fail or tasks?", "overview", shows="Failure rate"),
            _PATTERNS,
            Step("Compare nodes: does one of them fail, or all?", "nodes"),
            _EXITS,
        ),
        (_PAUSE, _CORDON, _REPLAY),
    ),
    "DalstonDeadLettersGrow": Runbook(
        "Tasks run out of retries, many a minute. They wait for you, for as many days as the settings say.",
        (_PATTERNS, _GROUPS, _EXITS),
        (_PAUSE, _REPLAY, _DISCARD),
    ),
    "DalstonNoLeader": Runbook(
        "No orchestrator holds the lease. Without any orchestrator nothing is dispatched and no result is applied; with one"
        " that does not lead, the tasks of dead engines wait for the scanner.",
        (
            _DUTIES,
            Step("Is an orchestrator running? `systemctl status 'dalston-orchestrator@*'`, and its log."),
            Step("Can it reach Redis and Postgres? Its log says which one does not answer."),
        ),
        (
            Step(
                "Start orchestrators: `systemctl restart 'dalston-orchestrator@*'`. No work is lost: events wait in Redis."
            ),
        ),
    ),
    "DalstonRedisAway": Runbook(
        "No process gets an answer from Redis. Submissions are accepted and wait in Postgres; engines finish what they have"
        " and keep its result; nothing new starts. Prometheus also fires when it can scrape no web process and no orchestrator.",
        (
            Step("Does the overview know its queues? Without Redis it says so in its first line.", "overview"),
            Step("`manage.py doctor` on a server: it names the address, and what does not answer."),
            Step("The log of the Redis server: is it out of memory, restarting, or in a failover?"),
        ),
        (
            Step(
                "Start Redis again, with its data if it has them: `systemctl restart valkey`. Without them nothing is lost: what"
                " waits and runs is put back from Postgres."
            ),
        ),
    ),
    "DalstonPostgresAway": Runbook(
        "No process gets an answer from Postgres. Clients get 503; engines finish what they have, and their results wait in"
        " Redis. Dalston itself can't notify of it: Prometheus does, also when it can scrape no web process and no orchestrator.",
        (
            Step("Does the overview answer? Without Postgres it says so.", "overview"),
            Step("`manage.py doctor` on a server: it names the address, and what does not answer."),
            Step("The log of the Postgres server: is its disk full, are its connections used up, is it a replica now?"),
        ),
        (
            Step(
                "Start Postgres again: `systemctl restart postgresql`. Each process goes on by itself when it answers."
            ),
        ),
    ),
    "DalstonQueueStalled": Runbook(
        "Tasks wait in a queue and none has ended for a while. No engine serves it, or its engines hang, or they run tasks"
        " that take longer.",
        (
            Step("Does an engine serve it? The column Engines says so.", "overview", shows="Queues"),
            _QUEUE,
            Step("Ask a waiting task why it does not run: its page says which limit, pause or capability holds it."),
            _EXITS,
        ),
        (Step("Give a hanging task to another engine.", "task", "Requeue"), _RESTART),
    ),
    "DalstonWorkersBusy": Runbook(
        "Nearly all slots run a task, for minutes. That is fine for a batch, and too little for work that must not wait.",
        (
            Step("Since when, and does it come back each hour?", "overview", shows="Utilisation"),
            Step("See which queues wait and how long until they are clear.", "overview", shows="Clear in"),
        ),
        (_SCALE, _LIMIT, _WEIGHT),
    ),
    "DalstonLowPriorityWaits": Runbook(
        "A task of low priority waits longer than ageing allows: it should have been promoted by then.",
        (_DUTIES, Step("The duty `ageing` must have run within two minutes, without an error.", "overview")),
        (Step("Start housekeeping again: `systemctl restart dalston-housekeeping`."), _SCALE),
    ),
    "DalstonQueueDeep": Runbook(
        "Many tasks wait in one queue. Above DALSTON_BACKPRESSURE_WAITING clients get 429.",
        (_QUEUE, Step("Which project sends them? The page of limits shows what each has in flight.", "limits")),
        (_SCALE, _LIMIT, _WEIGHT),
    ),
    "DalstonHighPriorityWaits": Runbook(
        "Urgent work waits. Its lane has too few engines, or a limit or a pause holds it.",
        (_QUEUE, Step("Ask the oldest task why it does not run: its page says it in a sentence.")),
        (_SCALE, Step("Let the queue work again if it is paused.", "queue", "Resume queue")),
    ),
    "DalstonQueueAgeHigh": Runbook(
        "One of twenty waiting tasks has waited long: the queue has been behind for some time.",
        (_QUEUE, Step("Is it clear soon at its pace? The overview says so in words.", "overview")),
        (_SCALE, _LIMIT),
    ),
    "DalstonRetriesHigh": Runbook(
        "Many attempts fail and are repeated. The work gets done, but it takes slots from other tasks.",
        (Step("See the retries by reason over the last hour.", "overview", shows="Retries"), _EXITS),
        (_CORDON, _PAUSE),
    ),
    "DalstonBreakersOpen": Runbook(
        "Several engines failed so often in a row that they claim nothing for a while. One trial task each decides then.",
        (_ENGINES, _GROUPS),
        (_RESTART, _PAUSE),
    ),
    "DalstonWorkersUnhealthy": Runbook(
        "A part of the engines takes no work: their circuit breaker is open, or their health probe fails.",
        (_ENGINES,),
        (_RESTART, _CORDON),
    ),
    "DalstonProbesFail": Runbook(
        "Health probes of engines fail. An engine whose probe fails twice in a row claims nothing until it passes.",
        (_ENGINES, Step("Run the probe of its engine.yaml by hand on the node.")),
        (_RESTART, _DRAIN),
    ),
    "DalstonRecoveries": Runbook(
        "Engines die with their tasks, which other engines run again. A task that kills its engine ends as a dead letter.",
        (_EXITS, Step("Is it one node, one engine, or one kind of task?", "nodes")),
        (_CORDON, _DRAIN),
    ),
    "DalstonResultsRefused": Runbook(
        "Results come from engines that had lost their task: they were judged dead, or their deadline had passed. Each"
        " refused result is work that was done twice.",
        (
            Step("Does the network of a node stall? Compare the age of its heartbeats.", "nodes"),
            Step("Are timeouts shorter than the tasks take? Compare durations.", "overview", shows="Duration"),
        ),
        (_CORDON,),
    ),
    "DalstonDutyLate": Runbook(
        "A periodic duty has not run: housekeeping is dead, hangs, or fails. Expiry, ageing, samples and repairs wait.",
        (
            _DUTIES,
            Step(
                "`systemctl status dalston-housekeeping`, and its log; for `recovery` and `alerts` the orchestrators'."
            ),
        ),
        (Step("Start it again: `systemctl restart dalston-housekeeping`."),),
    ),
    "DalstonEnginesCrashLoop": Runbook(
        "An engine ends soon after each start. Its supervisor waits longer before each new start, and then gives up for a"
        " while; a node on which every engine does that cordons itself.",
        (_EXITS,),
        (_RESTART, Step("Stop the engine until it is mended: scale it to 0.", "node", "Scale")),
    ),
    "DalstonDiskFilling": Runbook(
        "The disk that holds a node's logs, uploads and results, or the artifact store, is nearly full. Engines cannot write"
        " their results then, and fail.",
        (
            Step("`df -h` and `du -sh` of the state folder on the node, or of the folder of DALSTON_ARTIFACTS_URL."),
            Step("What each project has stored, on the page of limits.", "limits"),
        ),
        (_DRAIN, Step("Free space, or lower `logs` in its node.yaml, and let it work again.", "node", "Resume")),
    ),
    "DalstonDeadLettersOfOneCause": Runbook(
        "Many tasks ended for the same cause within a day: one thing is broken.",
        (_PATTERNS, _GROUPS),
        (_REPLAY_PATTERN, _DISCARD),
    ),
    "DalstonDeadLettersRetriable": Runbook(
        "Many dead letters have causes that pass: timeouts, dead engines, full GPUs. If that is over, a replay completes them.",
        (_PATTERNS, Step("Are the engines well now?", "nodes")),
        (
            _REPLAY_PATTERN,
            Step("Replay all of them at a rate, with a preview first.", "dead-letters", "Replay all that match…"),
        ),
    ),
}
