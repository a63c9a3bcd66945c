"""Django's Postgres backend behind a circuit breaker, for the web process (Django imports `base`)."""
