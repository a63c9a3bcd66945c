"""The web process: its server, the connections and bodies that it bounds, and the handler of its requests.

__main__  the server: uvicorn with bounded connections
serving   /healthz and /readyz, answered by the event loop, and a stop that is announced
protocol  HTTP connections: what a client may hold or use without sending a whole request, or reading its answer
sockets   WebSockets: how often one opens, and what its client may send
pace      how often an address gets an answer for which it needs no token
held      bytes of bodies and answers in memory
handler   serves a request in one step on a pooled thread
holders   to whom a request belongs before it is authenticated
"""
