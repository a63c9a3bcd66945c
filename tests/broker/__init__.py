"""Tests of the broker on a real Redis, in the rooms of its code.

guarantees/   what holds for all scripts: lost replies, the state machine, what other programs write, no trimming
conftest      messages, engines and readers on the test's own prefix
proxy         a TCP proxy that counts round trips and loses replies
servers       Valkey servers on their own ports, for topologies and restarts
"""
