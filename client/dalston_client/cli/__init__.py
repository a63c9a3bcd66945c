"""The command `dalston`: the client for a shell. Tables and live views for people, `--json` for programs.

main           the parser, errors, exit codes
exits          exit codes and their meanings
options        options and parameters of several commands
output         tables, lines and JSON on standard output, errors on standard error; confirmation
text           formats times, shares and sizes; removes control characters

One command each, or a few of one noun (transcribe is a folder):
transcribe, submit, jobs, tasks (and why), watch, cancel, dead_letters, nodes (and logs), streams (and stats),
limits, top
"""
