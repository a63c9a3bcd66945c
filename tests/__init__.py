"""Tests on the real thing: private Postgres and Valkey servers, real processes and signals, no mocks."""
