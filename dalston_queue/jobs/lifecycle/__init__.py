"""Lifecycle."""
