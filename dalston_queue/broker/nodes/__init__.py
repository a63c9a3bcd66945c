"""The supervisors' end of the queue: what nodes and engines report, and what operators ask of them.

registry    heartbeats, states, and the judge's verdicts
reports     the typed part of a heartbeat
health      the health probe of an engine: its socket and its question
commands    commands to a node, and their state
logs        lines of engines' logs, sent on request
"""
