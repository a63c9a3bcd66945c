"""Ageing: a task that has waited long counts as one of the next higher priority.

policy     when
promote    moves tasks within a shard
migrate    moves tasks to another shard
"""
