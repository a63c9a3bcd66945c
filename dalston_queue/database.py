"""Database connections, their errors, and text that Postgres can hold."""

from __future__ import annotations

from django.db import Error, InterfaceError, OperationalError, close_old_connections, connection

from dalston_queue.turns import give_up_turn

# SQLSTATE classes: connection lost, transaction rolled back (deadlock, serialization), out of resources, operator
# intervention (shutdown, cancelled statement); and lock not available, transaction idle for too long, or too long.
_TRANSIENT = ("08", "40", "53", "57", "55P03", "25P03", "25P04")


def is_transient(error: Error) -> bool:
    """True if repeating the same transaction can succeed."""
    cause = error.__cause__
    sqlstate: str | None = getattr(cause, "sqlstate", None)
    if sqlstate is None:
        # Without a code the server never answered: the connection is gone or was never made.
        return isinstance(error, OperationalError | InterfaceError)
    return sqlstate.startswith(_TRANSIENT)


def drop_broken_connection() -> None:
    """Close a connection that is no longer usable, before the next attempt."""
    close_old_connections()


def release_connection() -> None:
    """Return the connection to the pool before a wait; the next query takes one again. Not inside a transaction."""
    if connection.connection is not None and not connection.in_atomic_block:
        connection.close()


def before_wait() -> None:
    """For a request that begins to wait: it holds no connection meanwhile, and gives its turn up."""
    give_up_turn()
    release_connection()


def storable_text(text: str) -> str:
    """The text with U+FFFD instead of U+0000, the one character that Postgres can't hold. For texts that are shown."""
    return text.replace("\x00", "\ufffd")
