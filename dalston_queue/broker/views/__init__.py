"""Views of the queues, read only.

snapshot           numbers of every lane, and rates between two snapshots
snapshot_reader    how they are read
pages              pages of running tasks, and of one lane
"""
