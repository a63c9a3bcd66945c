"""OpenTelemetry spans: one tree for a job, from all processes that work on it.

    submit            the web process that stored the job; below the span of a caller that sent a traceparent
      wait            an orchestrator: from ready, or from the window in Redis, to the claim by an engine
        run           that engine
          settle      that engine: from the end of its work until Redis has accepted the result
        apply         an orchestrator: from the engine's event to the commit
      webhook         an orchestrator: each attempt to call the callback URL

ids        ids of spans, and traceparent; no process asks another for them
caller     the span of a web process's caller, for the time of its request
export     spans to a collector, if OTEL_* asks for it

A leaf: imports nothing of ours, and OpenTelemetry only inside `export`. Engines, jobs and web processes share it.
"""
