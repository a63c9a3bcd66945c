"""`./dev up`: all processes of Dalston on one machine, in the foreground.

__main__.py   from start to stop
options.py    the command line
holder.py     one `up` per data folder: the lock, the state file, the clean-up after a kill -9
stopping.py   reasons to stop: errors, Ctrl-C once, Ctrl-C twice
console.py    output with the name of its process
family.py     process trees: finds and kills their processes
children.py   the processes: their output, their restarts, the order in which they stop
services.py   the command and the environment of each process
readiness.py  readiness of all processes
accounts.py   migrations, the admin login and the API token (the only file here that loads Django)
hint.py       dev.env and the printed hint
"""
