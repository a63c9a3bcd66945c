"""Design 000, reliable queues: Redis Streams, recovery, leader election, safe events of many orchestrators."""

# ruff: noqa: E501 - a row is one line

STREAMS = {
    "stream per stage, dalston:stream:{stage}": "broker/test_docs::every_key_is_documented_and_every_documented_key_is_built",
    "consumer group engines, created on first use": "broker/connection/test_connection::a_lost_group_or_stream_is_created_again",
    "StreamMessage: id, task_id, job_id, enqueued_at, timeout_at": "broker/test_docs::the_new_names_of_the_first_design_exist + field:TaskMessage.task_id,job_id,enqueued_at_ms,timeout_ms + field:Record.entry_id,deadline_ms",
    "PendingTask: message_id, task_id, consumer, idle_ms, delivery_count": "field:PendingEntry.task_id,idle_ms + field:Record.entry_id,owner,deliveries,losses",
    "every helper function of the streams": "broker/test_docs::every_function_of_the_first_design_is_listed",
    "ensure_stream_group is idempotent": "broker/connection/test_connection::a_lost_group_or_stream_is_created_again",
    "add_task: XADD, its message id": "adr:append",
    "read_task: XREADGROUP, blocks until a task comes, block_ms 30000": "broker/engine/test_claim_and_wait::a_task_that_comes_during_the_wait_is_claimed",
    "claim_stale_tasks: min_idle_ms, count": "broker/engine/test_stale::only_an_owner_that_did_not_beat_over_the_whole_threshold_loses_its_task",
    "claim_tasks_by_id": "adr:xautoclaim",
    "XAUTOCLAIM": "adr:xautoclaim",
    "ack_task": "adr:always-ack",
    "always ack in finally": "adr:always-ack",
    "get_pending: idle and delivery count": "broker/views/test_pages::a_page_of_running_tasks_by_idle_time_and_by_deadline",
    "discover_streams": "adr:discovery",
    "get_stream_info": "broker/views/test_snapshot::every_lane_has_its_numbers",
    "timeout_s in the message": "broker/engine/test_claim::an_engine_gets_the_whole_message",
    "calculate_task_timeout": "jobs/submit/test_submit::a_single_task_is_a_job_of_one_with_the_defaults_of_its_priority",
    "the stage of an engine is that of its engine.yaml": "engines/test_manifest::a_small_manifest_has_the_documented_defaults",
    "streams are found by any stage name": "broker/views/test_snapshot::a_snapshot_is_one_round_trip_and_sees_at_once_what_is_new",
}
RECOVERY = {
    "a crashed engine's task comes back": "supervisor/process/test_reclaim::work_of_a_killed_engine_runs_on_another_within_a_second",
    "an engine claims stale tasks, also at its start": "engines/test_runner::an_engine_reclaims_by_the_budgets_of_its_environment",
    "only tasks of dead engines are taken": "broker/operations/test_reclaim::scanner_and_engines_reclaim_by_verdicts_only",
    "a slow but living engine keeps its task": "orchestrator/recovery/test_recovery::an_engine_that_beats_keeps_its_tasks_however_long_they_take",
    "the delivery count grows": "orchestrator/recovery/test_recovery::a_dead_engine_on_a_live_node_is_charged_as_a_crash",
    "MAX_DELIVERIES 3": "setting:DALSTON_MAX_DELIVERIES=3 + orchestrator/recovery/test_recovery::a_task_that_kills_three_engines_is_a_dead_letter",
    "MAX_DELIVERIES counts deliveries of any kind": "adr:crash-budget",
    "STALE_THRESHOLD_MS 600000": "setting:DALSTON_STALE_THRESHOLD_MS=600000 + adr:stale-threshold",
    "SCAN_INTERVAL_S 60": "setting:DALSTON_SCAN_INTERVAL_S=60 + orchestrator/duties/test_duties::the_first_time_everything_runs_and_then_only_what_is_due",
    "ABSOLUTE_TIMEOUT_MS 1800000": "setting:DALSTON_ABSOLUTE_TIMEOUT_MS=1800000 + orchestrator/recovery/test_recovery::the_scanner_ends_what_was_not_renewed_for_the_absolute_timeout_or_its_own_if_longer",
    "a task past its timeout fails, its job goes on or fails": "orchestrator/recovery/test_recovery::the_scanner_ends_what_is_past_its_deadline_and_its_grace",
    "a job fails with a clear error after its last retry": "jobs/lifecycle/test_advance::a_dead_required_task_fails_the_job_and_skips_the_waiting_tasks",
    "the scanner reads every stream": "orchestrator/test_wrong_key_types::the_duties_still_reach_every_other_queue",
    "after a crash of its engine a task is tried 3 times, then its job fails": "orchestrator/recovery/test_recovery::a_task_that_kills_three_engines_is_a_dead_letter",
}
LEADER = {
    "LEADER_KEY dalston:orchestrator:leader": "broker/orchestrator/test_lease::the_key_of_the_orchestrators_lease",
    "LEADER_TTL_S 30, renewed by its holder (try_acquire_leader)": "setting:DALSTON_LEADER_TTL_S=30 + broker/orchestrator/test_lease::acquiring_again_is_renewing",
    "one orchestrator scans, the others wait": "orchestrator/recovery/test_leadership::one_leads_and_the_other_waits_until_it_resigns",
    "events are handled by all orchestrators, not by the leader only": "orchestrator/recovery/test_many_orchestrators::four_orchestrators_on_the_same_jobs_never_deadlock_and_do_everything_once",
    "another leads after a kill": "orchestrator/recovery/test_leadership::after_a_kill_the_next_one_leads_when_the_lease_has_run_out",
}
EVENTS = {
    "events by pub/sub broadcast": "adr:events",
    "job.created, task.completed, task.failed": "orchestrator/events/test_apply::every_kind_of_event_has_its_handler",
    "a job is claimed by one orchestrator": "jobs/lifecycle/test_advance::claiming_a_job_makes_its_first_stages_ready_and_only_once",
    "a dependent is made ready by one": "jobs/lifecycle/test_advance::two_parents_that_finish_at_the_same_moment_make_their_child_ready_once",
    "concurrent handlers of one event": "orchestrator/events/test_apply::the_same_events_handled_by_twenty_at_once_make_each_dependent_ready_once",
    "two orchestrators, many jobs, no duplicate": "orchestrator/recovery/test_many_orchestrators::four_orchestrators_on_the_same_jobs_never_deadlock_and_do_everything_once",
    "UNIQUE (job_id, stage), uq_tasks_job_stage": "jobs/submit/test_submit::the_database_refuses_a_second_task_of_a_stage",
    "stages of channels, transcribe_ch0": "jobs/lifecycle/test_dag::the_queue_is_the_stage_without_its_channel",
    "cancel removes a waiting task (remove_task_from_stream)": "broker/operations/test_cancel::a_waiting_task_is_removed_from_any_lane_and_tier",
    "cancel of a running task": "engines/test_runner::a_cancel_reaches_a_running_task_within_a_second",
    "an engine skips cancelled tasks by asking Postgres": "adr:cancel-check",
    "upgrade: queues must be empty first": "adr:upgrade",
}
VERIFICATION = {
    "POST /v1/audio/transcriptions, file": "route:POST /audio/transcriptions + api/transcription/test_upload::both_addresses_are_the_same_route",
    "GET /v1/audio/transcriptions/{id}: status": "route:GET /audio/transcriptions/{transcription_id} + api/transcription/test_read::a_completed_one_has_its_text",
    "the whole script: submit, kill, restart, completed": "transcription/test_verification_script::an_engine_that_dies_in_the_middle_loses_nothing",
    "two orchestrators, no (job_id, stage) twice": "transcription/test_verification_script::two_orchestrators_make_no_stage_twice",
}
METRICS = {
    "dalston_queue_depth{stage}": "metric:dalston_queue_depth{stage}",
    "dalston_tasks_pending{stage}": "metric:dalston_tasks_pending{stage}",
    "dalston_tasks_stale{stage}": "metric:dalston_tasks_stale{stage}",
    "dalston_task_recovery_total{stage}": "metric:dalston_task_recovery_total{stage}",
    "log claimed_stale_task": "log:claimed_stale_task",
    "log task_queued": "log:task_queued",
    "log handling_job_created": "log:handling_job_created",
    "log job_already_claimed_or_cancelled": "log:job_already_claimed_or_cancelled",
    "log dependent_already_claimed": "log:dependent_already_claimed",
}
ROWS: dict[str, str] = {**STREAMS, **RECOVERY, **LEADER, **EVENTS, **VERIFICATION, **METRICS}
