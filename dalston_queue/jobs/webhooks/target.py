"""Which URLs a webhook may call, pure: http or https on the public internet, and private networks that settings allow.

A URL is checked twice: as text when it is submitted, and as the addresses of its name when it is sent. The connection
goes to an address that was checked, so a name that changes in between gains nothing.
"""

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from dalston_queue.jobs.errors import InvalidCallback

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL = 2000
_PORTS = {"http": 80, "https": 443}
_LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal")
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?\.?")
_NAT64 = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Target:
    secure: bool
    host: str  # a name, or an address without brackets
    port: int
    path: str  # with the query

    @property
    def host_header(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _PORTS["https" if self.secure else "http"] else f"{name}:{self.port}"

    @property
    def url(self) -> str:
        """The URL in its canonical form."""
        return f"{'https' if self.secure else 'http'}://{self.host_header}{self.path}"


def read_target(url: str, allowed: Sequence[Network] = ()) -> Target:
    """Raises InvalidCallback for a URL that may not be called, as far as the text shows."""
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise InvalidCallback(f"callback_url must be plain ASCII without spaces, up to {MAX_URL} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidCallback(f"callback_url can't be read: {error}") from None
    if parts.scheme not in _PORTS:
        raise InvalidCallback("callback_url must begin with http:// or https://")
    if "@" in parts.netloc:
        raise InvalidCallback("callback_url must not hold a user name or password: its requests are signed instead")
    if parts.fragment or "#" in url:
        raise InvalidCallback("callback_url must not have a fragment (#): no server would see it")
    host = (parts.hostname or "").lower()
    port = _PORTS[parts.scheme] if port is None else port
    if port not in _PORTS.values() and port < 1024:
        raise InvalidCallback(f"callback_url names port {port}: only 80, 443 and ports from 1024 are called")
    _check_host(host, allowed)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme == "https", host, port, path)


def check_address(text: str, allowed: Sequence[Network] = ()) -> None:
    """Raises InvalidCallback for an address that is not public and not allowed. `text` is numeric."""
    address = ip_address(text.partition("%")[0])
    inner = [each for each in _inside(address) if not _is_allowed(each, allowed)]
    if any(not _is_public(each) for each in inner):
        raise InvalidCallback(
            f"callback_url leads to {address}, which is not a public address; "
            "DALSTON_WEBHOOK_ALLOWED_NETWORKS names the private networks that may be called"
        )


def _check_host(host: str, allowed: Sequence[Network]) -> None:
    if ":" in host:
        try:
            IPv6Address(host)
        except ValueError:
            raise InvalidCallback(f"callback_url has no valid host: {host!r}") from None
        check_address(host, allowed)
    elif not _HOST.fullmatch(host):
        raise InvalidCallback(f"callback_url has no valid host: {host!r}")
    elif numbers := _as_numbers(host):
        check_address(numbers, allowed)
    elif not allowed and host.rstrip(".").endswith(_LOCAL_NAMES):
        raise InvalidCallback(f"callback_url names {host}, which is not on the public internet")


def _as_numbers(host: str) -> str | None:
    """127.0.0.1 for 127.0.0.1, and for 127.1, 0x7f.1. and 2130706433 as well: resolvers take them all."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host.removesuffix(".")))
    except OSError:
        return None


def _is_public(address: Address) -> bool:
    # Python counts fec0::/10, the private range that fc00::/7 replaced, among the global ones.
    local = isinstance(address, IPv6Address) and address.is_site_local
    return address.is_global and not (local or address.is_multicast or address.is_reserved)


def _is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in allowed)


def _inside(address: Address) -> list[Address]:
    """The address, the IPv4 address that a gateway would translate it to, or both if either is possible."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [IPv4Address(int(address) & 0xFFFFFFFF)]
    inner: list[Address] = [address]
    if address.sixtofour:
        inner.append(address.sixtofour)
    if address.teredo:
        inner.append(address.teredo[1])
    return inner
