"""The commands of `dalston`. A module adds its own to the parser, and has the function that runs it.

transcribe/         recordings to transcripts, several at once
submit              a task, a pipeline, or the stages in a file
jobs, tasks         lists jobs and tasks, shows one; `why` explains why a task is not running
watch, cancel       follows a job; cancels jobs and tasks
dead_letters        lists, replays and discards dead letters
nodes               nodes, their engines, commands to a node, and `logs` of an engine
streams             queues, pause and resume; `stats` of the installation
limits              limits, and weights of projects
top                 lanes and engines, live
"""
