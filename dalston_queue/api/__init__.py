"""The REST API under /api/v1: thin django-ninja routers over `jobs` and `broker`.

    request -> middleware (trace id) -> auth (who, which scopes) -> body (size, strict JSON) -> router -> jobs / broker
    any error -> problems (RFC 9457)
    following a job: events (route) -> event_stream (one follower) -> event_reader (one per process) -> event_news (SQL)

`*_in.py` is what a route takes, `*_out.py` what it answers.
A router translates: it holds no rule of its own. What a task may do is decided in `jobs`.
"""
