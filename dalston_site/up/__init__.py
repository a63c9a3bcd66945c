"""`./dev up`: all of Dalston on one machine, in the foreground, and nothing left behind.

__main__.py    the story from start to stop
options.py     the command line
holder.py      one `up` per data folder: the lock, the state file, the clean-up after a kill -9
console.py     lines with the name of their process in front
children.py    processes, each in its own group, and the order in which they stop
family.py      finding and ending what is left of a process tree
services.py    which processes, with which command and environment
accounts.py    migrations, the admin login and the API token (the only file here that loads Django)
readiness.py   when everything answers
hint.py        dev.env and the closing words
"""
