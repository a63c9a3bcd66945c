"""Nodes and their engines.

registry    heartbeats, states, and the judge's verdicts
reports     the typed part of a heartbeat
commands    commands to a node, and their state
logs        lines of engines' logs, on request
"""
