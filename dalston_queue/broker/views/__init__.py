"""Views of the queues, read only.

snapshot    numbers of every lane, and rates between two snapshots
pages       pages of running tasks, and of one lane
"""
