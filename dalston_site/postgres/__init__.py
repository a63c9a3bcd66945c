"""Django's Postgres backend behind a circuit breaker, for the web process (`base.py`, where Django looks for it)."""
