"""Operations on queues from outside of an engine: one module each, its script beside it.

broker/broker.py is their map: it imports each operation from its module and names it. An operation takes the shards
(`Topology`) first.
"""
