"""URLs and addresses that a client names: which of them may be called. A leaf of the standard library, and pure.

Only the public internet may be called, and private networks that the caller allows. A URL is checked twice: as text
when it is submitted, and as the addresses of its name when it is called. The connection goes to an address that was
checked (pinned.py), so a name that changes in between gains nothing.

Python's `is_global` is not asked: its list depends on Python's version, and 3.11.7 counts 192.0.0.192 as global.
"""

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

MAX_URL = 2000
_PORTS = {"http": 80, "https": 443}
_LOCAL_NAMES = ("localhost", ".localhost", ".local", ".internal")
_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?\.?")

# IANA's IPv4 Special-Purpose Address Registry: all of it, also what is "globally reachable" there. Those are relays and
# sinks (AS112, AMT, PCP) which the nearest router answers; no client's server has such an address.
SPECIAL_IPV4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared behind a provider's NAT; 100.100.100.200 is a metadata service
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local; 169.254.169.254 is the metadata service of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; 192.0.0.192 is a metadata service
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT relays
        "192.88.99.0/24",  # relays of 6to4, deprecated
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "240.0.0.0/4",  # reserved, with broadcast
        # Of other registries:
        "224.0.0.0/4",  # multicast
        "168.63.129.16/32",  # public by its number, but answered by the host of an Azure machine
    )
)

# IANA's IPv6 Special-Purpose Address Registry. Its entries outside GLOBAL_UNICAST are listed to be complete.
SPECIAL_IPV6 = tuple(
    IPv6Network(network)
    for network in (
        "::/128",  # unspecified
        "::1/128",  # loopback
        "::ffff:0:0/96",  # IPv4-mapped
        "64:ff9b::/96",  # IPv4 behind NAT64
        "64:ff9b:1::/48",  # the same, for local use
        "100::/64",  # discarded
        "100:0:0:1::/64",  # dummy
        "2001::/23",  # protocol assignments: Teredo (2001::/32), benchmarks, AMT, AS112, ORCHID, drones
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fc00::/7",  # unique local
        "fe80::/10",  # link-local
        # Of other registries:
        "::/96",  # IPv4-compatible, deprecated
        "fec0::/10",  # site-local, deprecated
        "ff00::/8",  # multicast
    )
)
# Everything that was ever given out. The rest is reserved, and no network on the internet routes it.
GLOBAL_UNICAST = IPv6Network("2000::/3")

_NAT64 = IPv6Network("64:ff9b::/96")
_LAST_32_BITS = (IPv6Network("::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::ffff:0:0:0/96"))
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)


class UrlRefused(ValueError):
    """A URL that may not be called. The message is a predicate: the caller puts the name of its field before it."""


class NotPublic(UrlRefused):
    """An address that is neither public nor in an allowed network."""


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


def read_url(url: str, allowed: Sequence[Network] = ()) -> Target:
    """Raises UrlRefused for a URL that may not be called, as far as the text shows."""
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise UrlRefused(f"must be plain ASCII without spaces, up to {MAX_URL} characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UrlRefused(f"can't be read: {error}") from None
    if parts.scheme not in _PORTS:
        raise UrlRefused("must begin with http:// or https://")
    if "@" in parts.netloc:
        raise UrlRefused("must not hold a user name or password")
    if parts.fragment or "#" in url:
        raise UrlRefused("must not have a fragment (#): no server would see it")
    host = (parts.hostname or "").lower()
    port = _PORTS[parts.scheme] if port is None else port
    if port not in _PORTS.values() and port < 1024:
        raise UrlRefused(f"names port {port}: only 80, 443 and ports from 1024 are called")
    _check_host(host, allowed)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme == "https", host, port, path)


def check_address(text: str, allowed: Sequence[Network] = ()) -> None:
    """Raises NotPublic for an address that is not public and not allowed. `text` is numeric, as resolvers return it."""
    address = ip_address(text.partition("%")[0])
    if not all(is_public(form) or _is_allowed(form, allowed) for form in _forms(address)):
        raise NotPublic(f"leads to {address}, which is not a public address")


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, by its own number, whatever it embeds."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL_IPV4)
    return address in GLOBAL_UNICAST and not any(address in network for network in SPECIAL_IPV6)


def _is_allowed(address: Address, allowed: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in allowed)


def _forms(address: Address) -> list[Address]:
    """The addresses that a packet to this one may reach: itself, and the IPv4 address in it. Each must be harmless."""
    if isinstance(address, IPv4Address):
        return [address]
    last = IPv4Address(int(address) & 0xFFFF_FFFF)
    if address.ipv4_mapped or address in _NAT64:
        return [last]  # the packet leaves as IPv4, here or at the gateway
    forms: list[Address] = [address]
    if address.sixtofour:
        forms.append(address.sixtofour)
    if address.teredo:
        forms.extend(address.teredo)
    if (int(address) >> 32) & 0xFFFF_FFFF in _ISATAP or any(address in network for network in _LAST_32_BITS):
        forms.append(last)
    return forms


def _check_host(host: str, allowed: Sequence[Network]) -> None:
    if ":" in host:
        try:
            IPv6Address(host)
        except ValueError:
            raise UrlRefused(f"has no valid host: {host!r}") from None
        check_address(host, allowed)
    elif not _HOST.fullmatch(host):
        raise UrlRefused(f"has no valid host: {host!r}")
    elif numbers := _as_numbers(host):
        check_address(numbers, allowed)
    elif not allowed and host.rstrip(".").endswith(_LOCAL_NAMES):
        raise UrlRefused(f"names {host}, which is not on the public internet")


def _as_numbers(host: str) -> str | None:
    """127.0.0.1 for 127.0.0.1, and for 127.1, 0x7f.1. and 2130706433 as well: resolvers take them all."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host.removesuffix(".")))
    except OSError:
        return None
