"""Nodes, engines, workers and GPUs: all of them, and one node.

cards                beats as plain values
order, commands      the buttons: a form read, and the command sent once and audited
logs                 an engine's log, followed by all who read it
"""
