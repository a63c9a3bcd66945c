"""The REST API under /api/v1: thin django-ninja routers over `jobs` and `broker`.

    request -> middleware (trace id) -> auth (who, which scopes) -> body (size, strict JSON) -> router -> jobs / broker
    any error -> problems (RFC 9457)

`*_in.py` is what a route takes, `*_out.py` what it answers.
A router translates: it holds no rule of its own. What a task may do is decided in `jobs`.
"""
