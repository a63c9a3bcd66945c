"""`./dev up`: all of Dalston on one machine, in the foreground, and nothing left behind.

__main__.py   from start to stop
options.py    the command line
holder.py     one `up` per data folder: the lock, the state file, the clean-up after a kill -9
stopping.py   reasons to stop: errors, Ctrl-C once, Ctrl-C twice
console.py    lines with the name of their process in front
family.py     process trees: finding and ending what is left of one
children.py   the processes: their output, their restarts, the order in which they stop
services.py   the command and the environment of each process
readiness.py  readiness of all processes
accounts.py   migrations, the admin login and the API token (the only file here that loads Django)
hint.py       dev.env and the closing words
"""
