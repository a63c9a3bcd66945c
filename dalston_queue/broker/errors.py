"""The exceptions of the broker.

    BrokerError
    ├── Unavailable        transient: connection lost, timeout, failover, READONLY, LOADING; repeat the call
    │   └── WrongKeyType   until an operator deletes the key: it has another type than ours
    ├── Denied             transient: Redis is out of memory and refused an append; repeat it later
    ├── Fenced             permanent for this session: stop the work, open a new session
    ├── Invalid            permanent: the caller's input is wrong (a name, a size, a setting)
    │   └── TooManyLanes   permanent until a lane is retired: more than 32 lanes in one queue
    └── Misconfigured      permanent: the server refuses us (no permission, wrong password)

Passing: repeating the same call can help. Permanent: it never does.
"""

from __future__ import annotations


class BrokerError(Exception):
    pass


class Unavailable(BrokerError):
    pass


class WrongKeyType(Unavailable):
    pass


class Denied(BrokerError):
    pass


class Fenced(BrokerError):
    """The session was ended (the engine was judged dead, or Redis lost it); nothing was settled or claimed."""


class Invalid(BrokerError):
    pass


class TooManyLanes(Invalid):
    pass


class Misconfigured(BrokerError):
    pass
