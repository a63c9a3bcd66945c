"""Ageing."""
