"""`./dev up`: all of Dalston on one machine, in the foreground, and nothing left behind.

__main__.py    the story from start to stop
options.py     the command line
holder.py      one `up` per data folder: the lock, the state file, the clean-up after a kill -9
console.py     lines with the name of their process in front
child.py       one process in its own group, its output, its end
children.py    all of them, and the order in which they stop
restarts.py    which of the dead are started again
family.py      finding and ending what is left of a process tree
services.py    which processes, with which command and environment
signals.py     Ctrl-C once, Ctrl-C twice
announcements.py  where processes say that they are ready
accounts.py    migrations, the admin login and the API token (the only file here that loads Django)
readiness.py   when everything answers
hint.py        dev.env and the closing words
errors.py      reasons to stop
"""
