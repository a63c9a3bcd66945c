"""The REST API under /api/v1: thin django-ninja routers over `jobs` and `broker`.

    request -> middleware (trace id) -> auth (who, which scopes) -> body (size, strict JSON) -> router -> jobs / broker
    any error -> problems (RFC 9457)
    following a job: events (route) -> event_stream (one follower) -> event_reader (one per process) -> event_news (SQL)

Routers translate: they hold no rule of their own. What a task may do is decided in `jobs`. `*_in.py` is what a route
takes, `*_out.py` what it answers.

routes, openapi                       all routers put together, and their document
tasks, task_actions, why              /tasks: submit, find, cancel; an operator's acts on one; why it is not running
jobs, webhooks                        /jobs; sending a job's webhook again
submitting, cancelling                what tasks and jobs share
waiting, places, leaving              `?wait=`: until it is over, for so many at a time, while the client is there
events, event_stream, event_reader,   following a job, and whether its follower still may
  event_news, guests
queue, streams                        /queue/stats and /streams: numbers, what engines hold, the brake
dlq, replay_batches                    /dead_letters: dead letters, and orders to replay them
nodes, worker_orders                  /nodes and /workers: orders to a supervisor, and to a worker over HTTP
workers, worker_polling,              /internal/workers: the worker protocol
  worker_results
audit                                 /audit
auth, principal, known_tokens,        who is asking, what they may, how often
  rate
backpressure, depths                  refusing submissions to a queue that is too full; how full each is
body, body_in, strict_query, listing, what requests and answers have in common
  reason, renderer, row_reader
middleware, trace, handlers,          trace ids, and errors as problem documents
  problems
"""
