"""The REST API under /api/v1: thin django-ninja routers over `jobs` and `broker`.

    request -> middleware (trace id) -> auth (who, which scopes) -> body (size, strict JSON) -> router -> jobs / broker
    any error -> problems (RFC 9457)

A router translates: it holds no rule of its own. What a task may do is decided in `jobs`.
"""
