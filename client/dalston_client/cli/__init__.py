"""The command `dalston`: the client for a shell. Tables and live views for people, `--json` for programs.

main       the parser, errors, exit codes
commands/  the commands, one module for each, or for those of one noun
exits      exit codes and their meanings
options    options and parameters of several commands
output     tables, lines and JSON on standard output, errors on standard error; confirmation
text       formats times, shares and sizes; removes control characters
"""
