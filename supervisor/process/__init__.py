"""Engine processes: started, signalled, reaped and measured here, as the policy (../policy) decides.

fleet         all slots of the node, and every action on their processes
slot          one slot: the state of one process of one engine, over its restarts
children      start, signal and reap processes
environment   the environment variables of an engine
notices       the sd_notify socket on which engines report READY, WATCHDOG and STATUS
probes        health checks of engines: the SDK's own, a command or a URL
usage         CPU and memory of each engine with its descendants
exits         why a process ended, and the evidence for it
cgroup        the kernel's counter of out-of-memory kills
statefile     pids and start times of running engines, for the next supervisor
orphans       finds and kills processes that a dead supervisor or engine left running
linux         subreaper, file limit, process table
"""
