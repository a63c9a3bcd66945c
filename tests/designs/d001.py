"""Design 001, the agreed queue with priorities. Where 002 disagrees, this one stands."""

# ruff: noqa: E501 - a row is one line

ENDPOINTS = {
    "POST /api/v1/tasks": "route:POST /tasks + api/tasks/test_submit::a_task_becomes_a_job_of_one_in_the_tokens_project",
    "GET /api/v1/tasks/{task_id}": "route:GET /tasks/{task_id} + api/tasks/test_read::the_owner_reads_it",
    "DELETE /api/v1/tasks/{task_id}": "route:DELETE /tasks/{task_id} + api/tasks/test_cancel::a_task_that_waits_was_not_running",
    "GET /api/v1/queue/stats": "route:GET /queue/stats + api/test_queue::stats_count_queues_workers_throughput_and_lanes",
    "POST /internal/workers/register": "api/workers/test_conformance::a_worker_runs_a_job_to_its_end",
    "POST /internal/workers/{worker_id}/poll": "api/workers/test_conformance::a_waiting_poll_wakes_within_a_second",
    "POST /internal/workers/{worker_id}/result": "api/workers/test_conformance::a_repeated_result_gets_the_same_answer_and_another_one_is_refused",
    "POST /internal/workers/{worker_id}/heartbeat": "api/workers/test_conformance::a_worker_without_heartbeats_loses_its_task_and_one_with_heartbeats_keeps_it",
    "all routes are documented": "api/auth/test_auth::the_page_names_every_route",
    "/internal is under /api/v1": "adr:worker-protocol",
}
TASK = {
    "task_id": "api/tasks/test_read::the_owner_reads_it",
    "priority high, medium, low": "api/tasks/test_submit::a_task_becomes_a_job_of_one_in_the_tokens_project",
    "effective_priority": "jobs/order/test_ageing::low_counts_as_medium_after_ten_minutes_and_as_high_after_twenty",
    "payload.task_type, parameters": "field:TaskOut.task_type,parameters + api/tasks/test_submit::a_task_becomes_a_job_of_one_in_the_tokens_project",
    "payload.required_capabilities": "field:TaskOut.required_capabilities + broker/engine/test_claim::an_engine_claims_only_what_it_can_run",
    "status": "adr:states",
    "states queued and executing": "adr:states",
    "states completed, failed, cancelled, dead_letter": "jobs/lifecycle/test_states::every_state_but_the_first_can_be_reached",
    "retry_count, max_retries": "field:TaskOut.retry_count,max_retries + orchestrator/test_a_job_runs::a_failed_task_is_retried_after_its_backoff_and_then_a_dead_letter",
    "created_at, started_at, completed_at": "field:TaskOut.created_at,started_at,completed_at + api/tasks/test_read::progress_is_what_its_engine_reports",
    "assigned_worker_id": "field:TaskOut.assigned_worker_id + api/workers/test_conformance::a_worker_runs_a_job_to_its_end",
    "result": "orchestrator/test_a_job_runs::a_single_task_runs_and_its_result_is_kept",
    "error.message": "api/workers/test_conformance::results_that_fail_are_retried_or_rejected",
    "error.retriable": "api/workers/test_conformance::a_failure_that_is_not_retriable_is_a_dead_letter_at_once",
    "timeout_seconds": "jobs/submit/test_submit::a_single_task_is_a_job_of_one_with_the_defaults_of_its_priority",
    "idempotency_key": "api/tasks/test_read::its_key_its_time_in_its_state_and_its_progress",
    "trace_id": "api/tasks/test_submit::the_task_has_the_trace_id_of_the_caller",
    "queue_position": "api/auth/test_limits::a_submission_shows_its_queue_position",
}
WORKER = {
    "worker states active, draining, dead": "api/test_queue::stats_count_queues_workers_throughput_and_lanes",
    "worker_id, status, capabilities, version, last_heartbeat": "field:EngineOut.engine_id,state,capabilities,info,last_beat_at + api/workers/test_overlap::workers_are_shown_among_the_engines",
    "current_tasks, current_load": "adr:worker-fields",
    "capacity 5": "field:RegisterIn.capacity,capabilities + api/workers/test_conformance::a_worker_that_names_no_capacity_runs_five_tasks_at_once",
    "capacity 5 of an engine": "adr:capacity",
    "heartbeat every 30 s, dead after 90 s": "adr:heartbeats",
    "a dead worker's tasks are requeued": "api/workers/test_conformance::a_worker_without_heartbeats_loses_its_task_and_one_with_heartbeats_keeps_it",
    "draining takes no new tasks": "api/workers/test_draining::a_draining_worker_keeps_its_task_and_gets_no_more",
    "poll_interval_ms 1000": "api/workers/test_conformance::a_worker_runs_a_job_to_its_end",
    "poll with capabilities": "adr:worker-protocol",
    "poll with available_capacity": "field:PollIn.available_capacity + api/workers/test_conformance::a_worker_gets_no_more_than_its_capacity",
    "poll answers task_id, task_type, parameters, timeout_seconds, trace_id": "field:WorkerTaskOut.task_id,task_type,parameters,timeout_seconds,trace_id + api/workers/test_conformance::a_worker_runs_a_job_to_its_end",
    "heartbeat with current_load": "adr:worker-protocol",
    "heartbeat answers acknowledged": "field:HeartbeatOut.acknowledged + api/workers/test_conformance::a_worker_without_heartbeats_loses_its_task_and_one_with_heartbeats_keeps_it",
    "result: task_id, status, result": "field:ResultIn.task_id,status,result + api/workers/test_conformance::a_worker_runs_a_job_to_its_end",
    "heartbeat with status": "field:HeartbeatIn.status + api/workers/test_overlap::a_draining_worker_that_polls_is_draining_still",
    "a claim is atomic": "api/workers/test_conformance::no_task_is_delivered_to_two_workers",
    "capabilities are checked after the claim": "adr:lanes",
}
ORDER = {
    "three queues in order of priority": "broker/engine/test_claim::tiers_are_strict_and_in_order_of_arrival_within",
    "sorted sets queue:high, queue:medium, queue:low": "adr:streams",
    "low_to_medium_seconds 600, medium_to_high_seconds 1200": "setting:DALSTON_LOW_TO_MEDIUM_S=600 + setting:DALSTON_MEDIUM_TO_HIGH_S=1200 + jobs/order/test_ageing::low_counts_as_medium_after_ten_minutes_and_as_high_after_twenty",
    "promotion_interval_seconds 60": "setting:DALSTON_PROMOTE_INTERVAL_S=60 + orchestrator/duties/test_duties::the_first_time_everything_runs_and_then_only_what_is_due",
    "promotion_batch_size 100, 50 from medium to high": "setting:DALSTON_PROMOTE_BATCH=100 + jobs/order/test_ageing::more_than_a_batch_is_promoted_at_once",
    "no task waits for more than 30 minutes": "jobs/order/test_waits::below_endless_high_load_every_task_starts_within_its_bound",
    "first in, first out within a queue": "broker/engine/test_claim::tiers_are_strict_and_in_order_of_arrival_within",
    "a retry keeps its place by created_at": "jobs/order/test_ageing::a_retry_keeps_its_age",
    "a retry returns to its own priority": "adr:recovered-tier",
}
RETRIES = {
    "retries 5, 3, 2": "setting:DALSTON_RETRIES_HIGH=5 + setting:DALSTON_RETRIES_MEDIUM=3 + setting:DALSTON_RETRIES_LOW=2 + jobs/submit/test_submit::a_single_task_is_a_job_of_one_with_the_defaults_of_its_priority",
    "timeouts 300, 600, 900 s": "setting:DALSTON_TIMEOUT_HIGH_S=300 + setting:DALSTON_TIMEOUT_MEDIUM_S=600 + setting:DALSTON_TIMEOUT_LOW_S=900 + jobs/submit/test_submit::a_single_task_is_a_job_of_one_with_the_defaults_of_its_priority",
    "the timeout grows by half on each retry": "adr:timeout-growth",
    "past max_retries a dead letter, max_retries_exceeded": "jobs/lifecycle/test_retry::failures_use_the_retries + orchestrator/test_a_job_runs::a_failed_task_is_retried_after_its_backoff_and_then_a_dead_letter",
    "a worker's death costs a retry": "adr:crash-budget",
    "scans of dead workers and timeouts every 30 s": "api/workers/test_conformance::a_deadline_is_enforced_within_seconds_while_the_worker_beats",
    "idempotency for 24 hours": "setting:DALSTON_IDEMPOTENCY_WINDOW_S=86400 + jobs/submit/test_submit::a_key_past_its_window_is_free_again",
    "the same key is the same task": "api/tasks/test_idempotency::a_repeat_answers_200_with_the_first_task",
    "dead letters are kept for 30 days": "setting:DALSTON_DEAD_LETTER_DAYS=30 + orchestrator/duties/test_duties::expired_rows_are_deleted_and_nothing_else",
    "queue:dlq in Redis": "adr:dead-letters",
    "replay with reset retries": "route:POST /dead_letters/{dead_letter_id}/replay + jobs/operator/test_replay::new_parameters_and_priority_reach_the_engine_and_budgets_are_fresh",
}
STATS = {
    "queues.{priority}.depth, oldest_age_seconds": "field:Depth.depth,oldest_age_seconds + api/test_queue::stats_count_queues_workers_throughput_and_lanes",
    "workers.active, draining, dead, total_capacity, used_capacity": "api/test_queue::stats_count_queues_workers_throughput_and_lanes",
    "throughput.completed_last_minute, failed_last_minute": "api/test_queue::stats_count_queues_workers_throughput_and_lanes",
}
METRICS = {
    "queue_depth{priority}": "metric:dalston_queue_depth{priority}",
    "queue_age_seconds{priority,percentile}": "metric:dalston_queue_age_seconds{priority,percentile}",
    "tasks_promoted_total{from,to}": "metric:dalston_tasks_promoted_total{from,to}",
    "task_duration_seconds{priority,status}": "metric:dalston_task_duration_seconds{priority,status}",
    "task_retries_total{priority,reason}": "metric:dalston_task_retries_total{priority,reason}",
    "task_state_total{status}": "metric:dalston_task_state_total{status}",
    "workers_total{status}": "metric:dalston_workers_total{status}",
    "worker_capacity_used_ratio": "metric:dalston_worker_capacity_used_ratio",
    "worker_heartbeat_failures_total": "metric:dalston_worker_heartbeat_failures_total",
    "tasks_failed_total{reason}": "metric:dalston_tasks_failed_total{reason}",
    "tasks_dlq_total": "metric:dalston_tasks_dlq_total",
    "JSON logs of state transitions": "log:state transitions",
    "a promotion is logged": "log:a promotion",
    "a retry is logged": "log:a retry",
    "the trace id is that of the whole task": "field:TaskMessage.trace_id + api/tasks/test_submit::the_task_has_the_trace_id_of_the_caller",
}
ALERTS = {
    "critical: no active workers for 2 minutes": "alert:DalstonNoActiveWorkers + setting:DALSTON_ALERT_NO_WORKERS_S=120",
    "critical: high priority depth above 1000": "alert:DalstonHighPriorityQueueDeep + setting:DALSTON_ALERT_HIGH_DEPTH=1000",
    "critical: failure rate above 25 %": "alert:DalstonFailureRateHigh + setting:DALSTON_ALERT_FAILURE_RATE=0.25",
    "critical: more than 10 dead letters a minute": "alert:DalstonDeadLettersGrow + setting:DALSTON_ALERT_DEAD_LETTERS_PER_MINUTE=10",
    "warning: utilisation above 90 % for 10 minutes": "alert:DalstonWorkersBusy + setting:DALSTON_ALERT_UTILISATION=0.9",
    "warning: low priority waits for 25 minutes": "alert:DalstonLowPriorityWaits + setting:DALSTON_ALERT_LOW_WAIT_S=1500",
    "warning: any depth above 5000": "alert:DalstonQueueDeep + setting:DALSTON_ALERT_DEPTH=5000",
}
DEPLOYMENT = {
    "Redis Sentinel": "broker/connection/test_topologies::a_failover_by_sentinel",
    "10 to 100 workers": "broker/engine/test_claim::one_append_wakes_one_of_a_hundred_idle_engines",
    "polls of a fixed batch, promotions of a bounded one": "broker/engine/test_claim::no_more_is_claimed_than_there_is_room_for + jobs/test_indexes::each_poll_uses_its_index_and_never_reads_the_whole_table",
    "Postgres is the durable history": "orchestrator/crashes/test_flush::a_running_system_that_loses_all_of_redis_finishes_every_job",
    "1000 tasks a second": "bench/test_bench_runs::pipeline_bench_takes_tasks_to_completed",
}
ROWS: dict[str, str] = {
    **ENDPOINTS, **TASK, **WORKER, **ORDER, **RETRIES, **STATS, **METRICS, **ALERTS, **DEPLOYMENT,
}  # fmt: skip
