"""Who calls, what they may, how often.

bearer        tokens and sessions, the scopes that open a route, rate limits
principal     the caller: a token of one project, or a person who is logged in
backpressure  refuses submissions to a queue that is too full
"""
