"""The pages of nodes: all nodes with their engines, workers and GPUs, and one node.

cards         heartbeats as plain values
read          the registry; of one node its commands, and the tasks it has or lost
render, views both pages
actions       commands to nodes and to workers over HTTP: a form read, sent once, audited
logs          an engine's log, followed by all who read it
"""
