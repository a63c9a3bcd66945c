"""Moves jobs on: consumes events, dispatches, schedules, recovers, keeps house. Any number of processes may run it."""
