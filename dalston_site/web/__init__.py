"""The web process: its server, the connections and bodies that it bounds, and the handler of its requests."""
