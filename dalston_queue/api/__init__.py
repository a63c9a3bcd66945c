"""The REST API under /api/v1: thin django-ninja routes over `jobs` and `broker`.

    request -> middleware (trace id) -> bearer (token, scopes) -> body (size, strict JSON) -> route -> jobs / broker
    any error -> handlers -> problems (RFC 9457)
    server-sent events: routes/events -> stream (one subscriber) -> job_events (for all) -> changes (SQL)

Routes translate and hold no rule of their own: what a task may do is decided in `jobs`. A module of routes/ is mounted
because it is there, so a new route touches its module in routes/, its noun in schemas/, its test and docs/api.md.

api             the API put together: auth, parser, renderer, error handlers, routes
routes/         one module per path
schemas/        what routes take and answer, one module per noun
auth/           tokens, scopes, rate limits, backpressure
errors/         problem documents, exception handlers, the middleware around routes
requests/       strict bodies and queries, the OpenAPI page, cancels, polls and results of workers over HTTP
subscriptions/  requests that wait: long polls and server-sent events
"""
