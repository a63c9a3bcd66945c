"""The supervisors' end of the queue: what nodes and engines report, and what operators ask of them.

registry    heartbeats, states, and the judge's verdicts
reports     the typed part of a heartbeat
commands    commands to a node, and their state
logs        lines of engines' logs, sent on request
"""
