"""The command `dalston`: the client for a shell. Tables and live views for people, `--json` for programs.

main.py        the parser of everything, errors, exit codes
exits.py       what each exit code means
options.py     what several commands take
output.py      tables, lines and JSON on standard output, errors on standard error
text.py        words for times, shares and sizes; takes control characters out of what others wrote
parameters.py  key=value, key:=JSON, @file
confirm.py     asks before something is changed that cannot be taken back
submit.py      jobs.py  tasks.py  watch.py  cancel.py  dead_letters.py  nodes.py  streams.py  logs.py: one command each
top.py         the live view of lanes and engines; board.py draws it, keyboard.py reads the q
"""
