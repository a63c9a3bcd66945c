"""Design 004, the worker: atomic moves and claims, handlers, heartbeats, retries with backoff, an audit of events."""

# ruff: noqa: E501 - a row is one line

ROWS: dict[str, str] = {
    "BLMOVE or BRPOPLPUSH into processing:default": "adr:streams",
    "REDIS_HOST_LOW, REDIS_PORT_LOW, DATABASE_URL": "adr:servers",
    "python -m core.queue_manager, python -m worker.main": "adr:servers",
    "a payload survives the worker's crash": "fundamentals/test_a_task::4_the_task_of_a_crashed_engine_is_reclaimed",
    "a claim by UPDATE ... RETURNING": "adr:claim",
    "worker_id is kept when the task is over": "orchestrator/test_a_job_runs::a_single_task_runs_and_its_result_is_kept",
    "sync and async handlers": "engines/test_author::an_async_function_is_an_engine_too_and_a_cancel_ends_its_sleep",
    "COMPLETED on success": "fundamentals/test_a_task::3_settle_reports_the_result_and_claims_the_next_task",
    "a retry is scheduled, not pushed at once": "orchestrator/test_a_job_runs::a_failed_task_is_retried_after_its_backoff_and_then_a_dead_letter",
    "backoff min(60, 5 * retry_count)": "adr:backoff",
    "exponential backoff with jitter": "jobs/lifecycle/test_retry::full_jitter_goes_down_to_nothing",
    "FAILED after max_retries": "orchestrator/test_a_job_runs::a_failed_task_is_retried_after_its_backoff_and_then_a_dead_letter",
    "TaskEvents with the worker's id": "jobs/queries/test_timeline::each_delivery_has_its_engine_its_times_and_its_outcome",
    "TaskResult": "fundamentals/test_a_task::3_settle_reports_the_result_and_claims_the_next_task",
    "the title names a handler": "adr:default-handler",
    "HANDLERS by the task's type": "engines/test_author::the_demo_engine_runs_what_the_task_type_names",
    "handlers dummy and echo": "engines/test_author::the_demo_engine_does_what_it_is_asked",
    "a default handler for an unknown type": "engines/test_author::the_demo_engine_runs_what_the_task_type_names",
    "the default handler is always there": "adr:default-handler",
    "the payload leaves processing:default when the handler returns": "adr:always-ack",
    "worker:<id>:heartbeat in Redis": "broker/nodes/test_registry::a_node_beats_for_all_its_engines_in_one_round_trip",
    "the reclaimer scans processing:default": "adr:reclaimer",
    "large results outside of the row": "engines/test_files::a_large_result_travels_by_reference_to_the_child",
    "Redis Streams with consumer groups": "broker/engine/test_claim::an_engine_gets_the_whole_message",
    "per worker lists for the reclaimer": "broker/views/test_pages::running_tasks_of_one_engine_or_of_one_stream",
    "run the worker alone": "engines/test_tutorial::the_engine_runs_alone_and_beats_for_itself",
    "debugging: why is this task not running": "api/tasks/test_why::no_engine_or_none_that_can",
}
