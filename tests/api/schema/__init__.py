"""Fuzzing of the API.

test_fuzz           random requests by Hypothesis
test_schemathesis   requests made from the OpenAPI document
existing            rows that exist meanwhile
hooks               rules that JSON Schema can't express; schemathesis.toml is its configuration
"""
