"""The pages of nodes: all nodes with their engines, workers and GPUs, and one node.

cards         nodes, engines and tasks as plain values, made from heartbeats
read          the registry; of one node also its commands, its running tasks and its lost ones
render        both pages
views         the page of one node
actions       commands to nodes and to workers over HTTP
logs          an engine's log, followed live
"""
