"""The routes of the API, one module per path; each has a `router`.

tasks, jobs                   submit, list, read, cancel; why a task waits; requeue, dead-letter; resend webhooks
events                        /jobs/{job_id}/events: a job as server-sent events
queues                        /queue/stats and /streams: numbers, pending entries, pause and resume
dead_letters, replay_batches  list, replay, discard; undo or stop a batch
nodes                         /nodes and /workers: engines, logs, commands, drain
scale                         /scale: the load of lanes, for an autoscaler
limits                        /limits and the weights of projects
workers                       /internal/workers: the worker protocol
transcriptions                /audio/transcriptions: submit, list, read, cancel, delete
transcription_files           the transcript as a file, and the recording
models                        /models: the models of speech
audit                         /audit: operator actions
"""
