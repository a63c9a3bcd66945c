"""The routes of the API, one module per path, which its first line names.

Each has a `router`, and is mounted because it is there.
"""
