"""Logs of engines: their output on its way into files. No engine ever waits for its log.

    engine ── pipe ──► relay process ── pipe ──► log thread ──► rotated files ──► tail, follow

relay      the process between engines and supervisor: drops and counts output that the supervisor does not read in time
pipes      the supervisor's end of the relay: starts it, passes it pipes, replaces it when it dies or hangs
store      the log thread and the logs of all slots
intake     splits output into lines with a timestamp, notes where bytes were dropped
rotation   one log file, rotated by size
reader     reads a log: its last lines, a time span, or what follows a position
follow     sends new lines of a slot to subscribers, through Redis
"""
