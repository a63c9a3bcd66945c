"""Commands from the API. Each is handled once, answered, and harmless when sent twice.

handlers   one method per command
pending    commands that run for a while, checked until they are done or have failed
rolling    rolling restart: one process at a time
intent     what operators asked of this node, saved over restarts
"""
