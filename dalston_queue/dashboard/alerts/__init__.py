"""Alerts: what fires, what ended lately, and the runbook of each alert.

read       standing and ended alerts, from Postgres
render     the page, the runbook, and the panel of the overview
views      the page of one runbook
"""
