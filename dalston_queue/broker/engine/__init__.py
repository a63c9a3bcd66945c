"""An engine's end of the queue: claim, run, settle. One round trip settles what ended and claims what comes next.

consumer    what an engine calls: open, exchange, claim, wait, renew_all, release, close
session     one engine in one queue of one shard: the fence, the sequence number, the call without an answer
delivery    one delivery of a task: it can report progress, renew, settle and release itself
waker       waits for work: BLPOP on the wake keys of the engine's lanes
breaker     the circuit breaker of an engine, pure
stale       an engine's own reclaim from owners that are dead
remote      a worker that speaks to the API by HTTP
"""
