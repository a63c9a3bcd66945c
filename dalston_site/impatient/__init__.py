"""Django's Postgres backend for a process that answers people: nobody waits for a server that hangs.

A server that is stopped, or whose disk is, breaks no connection: its kernel goes on taking what is sent, and no timeout
of TCP or of Postgres ends the wait. A long wait alone shows nothing either, since a query may take its time. So whoever
has waited for a while asks over a new connection whether Postgres answers anybody. If not, it counts as hung: those who
wait for it are told so, whoever comes is turned away at once, and now and then one tries again.

patience      whether it hangs
connection    waits for answers, and asks when one is late
base          what Django loads
"""
