"""How schemathesis is set up: schemathesis.toml, and what JSON Schema can't say (hooks.py)."""
