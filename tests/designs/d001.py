"""Design 001, the agreed queue with priorities. Where 002 disagrees, this one stands."""

# ruff: noqa: E501 - a row is one line

ENDPOINTS = {
    "POST /api/v1/tasks": "api/tasks/test_submit::a_task_becomes_a_job_of_one_in_the_tokens_project",
    "GET /api/v1/tasks/{task_id}": "api/tasks/test_read::the_owner_reads_it",
    "DELETE /api/v1/tasks/{task_id}": "api/tasks/test_cancel::a_task_that_waits_was_not_running",
    "GET /api/v1/queue/stats": "api/test_queue::stats_count_queues_workers_throughput_and_lanes",
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
    "payload.task_type, parameters": "api/tasks/test_submit::the_client_overrides_the_defaults",
    "payload.required_capabilities": "broker/engine/test_claim::an_engine_claims_only_what_it_can_run",
    "status": "adr:states",
    "states queued and executing": "adr:states",
    "states completed, failed, cancelled, dead_letter": "jobs/lifecycle/test_states::every_state_but_the_first_can_be_reached",
    "retry_count, max_retries": "jobs/lifecycle/test_retry::failures_use_the_retries",
    "created_at, started_at, completed_at": "client/test_page::the_types_have_exactly_the_fields_of_the_schema",
    "assigned_worker_id": "api/workers/test_conformance::a_worker_runs_a_job_to_its_end",
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
    "worker_id, status, capabilities, version, last_heartbeat": "api/test_nodes::nodes_are_listed_with_their_engines",
    "current_tasks, current_load": "adr:worker-fields",
    "capacity 5": "api/workers/test_conformance::a_worker_that_names_no_capacity_runs_five_tasks_at_once",
    "capacity 5 of an engine": "adr:capacity",
    "heartbeat every 30 s, dead after 90 s": "adr:heartbeats",
    "a dead worker's tasks are requeued": "api/workers/test_conformance::a_worker_without_heartbeats_loses_its_task_and_one_with_heartbeats_keeps_it",
    "draining takes no new tasks": "api/workers/test_draining::a_draining_worker_keeps_its_task_and_gets_no_more",
    "poll_interval_ms 1000": "api/workers/test_conformance::a_worker_runs_a_job_to_its_end",
    "poll with capabilities": "adr:worker-protocol",
    "poll with available_capacity": "api/workers/test_conformance::a_worker_gets_no_more_than_its_capacity",
    "poll answers task_id, task_type, parameters, timeout_seconds, trace_id": "api/workers/test_conformance::a_worker_runs_a_job_to_its_end",
    "heartbeat with current_load": "adr:worker-protocol",
    "heartbeat answers acknowledged": "api/workers/test_protocol_page::the_page_names_every_call",
    "a claim is atomic": "api/workers/test_conformance::no_task_is_delivered_to_two_workers",
    "capabilities are checked after the claim": "adr:lanes",
}
ORDER = {
    "three queues in order of priority": "broker/engine/test_claim::tiers_are_strict_and_in_order_of_arrival_within",
    "sorted sets queue:high, queue:medium, queue:low": "adr:streams",
    "low counts as medium after 600 s, medium as high after 1200 s": "jobs/order/test_ageing::low_counts_as_medium_after_ten_minutes_and_as_high_after_twenty",
    "promotion_interval_seconds 60": "orchestrator/duties/test_duties::the_first_time_everything_runs_and_then_only_what_is_due",
    "promotion_batch_size 100": "site/settings/test_settings_page::each_declared_setting_has_its_row",
    "no task waits for more than 30 minutes": "jobs/order/test_waits::below_endless_high_load_every_task_starts_within_its_bound",
    "first in, first out within a queue": "broker/engine/test_claim::tiers_are_strict_and_in_order_of_arrival_within",
    "a retry keeps its place by created_at": "jobs/order/test_ageing::a_retry_keeps_its_age",
    "a retry returns to its own priority": "adr:recovered-tier",
}
RETRIES = {
    "retries 5, 3, 2": "jobs/submit/test_submit::a_single_task_is_a_job_of_one_with_the_defaults_of_its_priority",
    "timeouts 300, 600, 900 s": "jobs/submit/test_submit::a_single_task_is_a_job_of_one_with_the_defaults_of_its_priority",
    "the timeout grows by half on each retry": "adr:timeout-growth",
    "past max_retries a dead letter": "jobs/lifecycle/test_retry::failures_use_the_retries",
    "a worker's death costs a retry": "adr:crash-budget",
    "scans of dead workers and timeouts every 30 s": "api/workers/test_conformance::a_deadline_is_enforced_within_seconds_while_the_worker_beats",
    "idempotency for 24 hours": "jobs/submit/test_submit::a_key_past_its_window_is_free_again",
    "the same key is the same task": "api/tasks/test_idempotency::a_repeat_answers_200_with_the_first_task",
    "dead letters are kept for 30 days": "orchestrator/duties/test_duties::expired_rows_are_deleted_and_nothing_else",
    "queue:dlq in Redis": "adr:dead-letters",
    "replay with reset retries": "jobs/operator/test_replay::new_parameters_and_priority_reach_the_engine_and_budgets_are_fresh",
}
STATS = {
    "queues.{priority}.depth, oldest_age_seconds": "api/test_queue::stats_count_queues_workers_throughput_and_lanes",
    "workers.active, draining, dead, total_capacity, used_capacity": "api/test_queue::stats_count_queues_workers_throughput_and_lanes",
    "throughput.completed_last_minute, failed_last_minute": "api/test_queue::stats_count_queues_workers_throughput_and_lanes",
}
METRICS = {
    "queue_depth{priority}": "metric:dalston_queue_depth",
    "queue_age_seconds{priority,percentile}": "metric:dalston_queue_age_seconds",
    "tasks_promoted_total{from,to}": "metric:dalston_tasks_promoted_total",
    "task_duration_seconds{priority,status}": "metric:dalston_task_duration_seconds",
    "task_retries_total{priority,reason}": "metric:dalston_task_retries_total",
    "task_state_total{status}": "metric:dalston_task_state_total",
    "workers_total{status}": "metric:dalston_workers_total",
    "worker_capacity_used_ratio": "metric:dalston_worker_capacity_used_ratio",
    "worker_heartbeat_failures_total": "metric:dalston_worker_heartbeat_failures_total",
    "tasks_failed_total{reason}": "metric:dalston_tasks_failed_total",
    "tasks_dlq_total": "metric:dalston_tasks_dlq_total",
    "JSON logs of state transitions": "log:state transitions",
    "a promotion is logged": "log:a promotion",
    "a retry is logged": "log:a retry",
}
ALERTS = {
    "critical: no active workers for 2 minutes": "alert:DalstonNoActiveWorkers",
    "critical: high priority depth above 1000": "alert:DalstonHighPriorityQueueDeep",
    "critical: failure rate above 25 %": "alert:DalstonFailureRateHigh",
    "critical: more than 10 dead letters a minute": "alert:DalstonDeadLettersGrow",
    "warning: utilisation above 90 % for 10 minutes": "alert:DalstonWorkersBusy",
    "warning: low priority waits for 25 minutes": "alert:DalstonLowPriorityWaits",
    "warning: any depth above 5000": "alert:DalstonQueueDeep",
}
DEPLOYMENT = {
    "Redis Sentinel": "broker/connection/test_topologies::a_failover_by_sentinel",
    "Postgres is the durable history": "orchestrator/crashes/test_flush::a_running_system_that_loses_all_of_redis_finishes_every_job",
    "1000 tasks a second": "bench/test_bench_runs::pipeline_bench_takes_tasks_to_completed",
}
ROWS: dict[str, str] = {
    **ENDPOINTS, **TASK, **WORKER, **ORDER, **RETRIES, **STATS, **METRICS, **ALERTS, **DEPLOYMENT,
}  # fmt: skip
