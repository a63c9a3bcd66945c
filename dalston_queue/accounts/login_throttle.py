"""Throttles logins against guessed passwords: a limit per account and per address in a sliding window.

Attempts are rows in Postgres, which a login needs anyway, so the throttle works while Redis is away. An attempt is
counted before the password is checked, under a lock, or a hundred parallel guesses would all be the first. A refused
attempt is not counted, and checks no password. The answer does not depend on whether the account exists.

An attacker who knows an account's name can keep it refused by guessing on; people who are logged in stay so.
"""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta
from hashlib import sha256

from django.conf import settings
from django.db import connection, transaction

from dalston_queue.models import LoginAttempt

_COUNTED = """
    SELECT count(*), min(at) FROM (
        SELECT at FROM dalston_login_attempt WHERE {column} = %s AND at > %s ORDER BY at DESC LIMIT %s
    ) AS tried"""
_BY_ACCOUNT = _COUNTED.format(column="account")
_BY_ADDRESS = _COUNTED.format(column="address")


def count_attempt(username: str, address: str, now: datetime) -> timedelta | None:
    """Count an attempt; returns how long to wait instead, if there were too many."""
    account, network = digest(username), network_of(address)
    window = timedelta(seconds=settings.DALSTON_LOGIN_WINDOW_S)
    since = now - window
    with transaction.atomic(), connection.cursor() as cursor:
        # Sorted: two attempts that share an account and an address would otherwise deadlock.
        for key in sorted({f"login account {account}", f"login address {network}"}):
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [key])
        waits: list[timedelta] = []
        for statement, value, limit in (
            (_BY_ACCOUNT, account, settings.DALSTON_LOGIN_TRIES_ACCOUNT),
            (_BY_ADDRESS, network, settings.DALSTON_LOGIN_TRIES_ADDRESS),
        ):
            cursor.execute(statement, [value, since, limit])
            tried, oldest = cursor.fetchone()
            if tried >= limit:
                waits.append(oldest + window - now)
        if waits:
            return max(waits)
        LoginAttempt.objects.create(at=now, account=account, address=network)
    return None


def clear_attempts(username: str, address: str) -> None:
    """After a successful login: earlier attempts of this account from this address no longer count."""
    LoginAttempt.objects.filter(account=digest(username), address=network_of(address)).delete()


def digest(username: str) -> str:
    return sha256(username.strip().casefold().encode("utf-8", "surrogatepass")).hexdigest()


def network_of(address: str) -> str:
    """An IPv6 customer has at least a /64, which counts as one address; so do all invalid addresses together."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
