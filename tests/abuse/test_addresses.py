"""Addresses that a client names: the decision alone. Nothing is looked up and nothing is sent."""

from __future__ import annotations

import subprocess
import sys
from ipaddress import IPv4Address, IPv6Address, ip_network

import pytest

from dalston_queue.addresses import SPECIAL_IPV4, SPECIAL_IPV6, Network, NotPublic, UrlRefused, check_address, read_url

PUBLIC = ["1.1.1.1", "9.9.9.9", "172.15.255.255", "172.32.0.0", "100.63.255.255", "192.0.1.0", "198.20.0.0"]
PUBLIC_IPV6 = ["2606:4700::1111", "2001:200::1", "2001:4860:4860::8888", "2a00:1450::1"]
# Python 3.11.7 counts most of them as global.
MISSED_BY_PYTHON = ["192.0.0.192", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1", "168.63.129.16"]
MISSED_BY_PYTHON += ["3fff::1", "5f00::1", "64:ff9b:1::1", "fec0::1", "4000::1", "2620:4f:8000::1"]


def _is_refused(address: str, allowed: list[Network] | None = None) -> bool:
    try:
        check_address(address, allowed or [])
    except NotPublic:
        return True
    return False


@pytest.mark.parametrize("network", [*SPECIAL_IPV4, *SPECIAL_IPV6], ids=str)
def test_both_ends_of_a_special_range_are_refused(network: Network) -> None:
    assert _is_refused(str(network[0]))
    assert _is_refused(str(network[-1]))


@pytest.mark.parametrize("address", MISSED_BY_PYTHON)
def test_a_range_that_python_calls_global_is_refused(address: str) -> None:
    assert _is_refused(address)


@pytest.mark.parametrize("address", PUBLIC + PUBLIC_IPV6)
def test_a_public_address_is_not_refused(address: str) -> None:
    assert not _is_refused(address)


def _embedded(inner: IPv4Address) -> dict[str, str]:
    """The spellings of an IPv4 address inside an IPv6 address."""
    number = int(inner)
    return {
        "mapped": f"::ffff:{inner}",
        "compatible": f"::{inner}",
        "translated": f"::ffff:0:{inner}",
        "nat64": f"64:ff9b::{inner}",
        "nat64, local": f"64:ff9b:1::{inner}",
        "6to4": str(IPv6Address(0x2002 << 112 | number << 80 | 1)),
        "teredo server": str(IPv6Address(0x2001_0000 << 96 | number << 64 | 0xFEFE_FEFE)),
        "teredo client": str(IPv6Address(0x2001_0000 << 96 | 0x0101_0101 << 64 | number ^ 0xFFFF_FFFF)),
        "isatap": f"2606:4700::5efe:{inner}",
        "isatap, unique": f"2606:4700::200:5efe:{inner}",
    }


@pytest.mark.parametrize("inner", [*MISSED_BY_PYTHON[:6], "127.0.0.1", "10.0.0.1", "169.254.169.254"])
def test_an_embedded_address_is_refused_in_every_spelling(inner: str) -> None:
    spellings = _embedded(IPv4Address(inner))
    assert [name for name, text in spellings.items() if not _is_refused(text)] == []


def test_a_public_address_behind_a_gateway_may_be_called_and_through_a_tunnel_not() -> None:
    spellings = _embedded(IPv4Address("1.1.1.1"))
    assert {name for name, text in spellings.items() if not _is_refused(text)} == {
        "mapped", "nat64", "isatap", "isatap, unique",
    }  # fmt: skip


def test_an_allowed_network_opens_no_way_around_itself() -> None:
    private = [ip_network("10.0.0.0/8")]
    assert not _is_refused("10.1.2.3", private)
    assert not _is_refused("::ffff:10.1.2.3", private)
    assert not _is_refused("64:ff9b::10.1.2.3", private)
    assert _is_refused("2002:a01:203::1", private), "the tunnel itself is not allowed"
    tunnels = [ip_network("2002::/16"), ip_network("2001::/32"), ip_network("64:ff9b:1::/48")]
    for spelling in ("6to4", "teredo client", "nat64, local"):
        assert _is_refused(_embedded(IPv4Address("127.0.0.1"))[spelling], tunnels), spelling
        assert not _is_refused(_embedded(IPv4Address("9.9.9.9"))[spelling], tunnels), spelling


@pytest.mark.parametrize(
    "url", ["http://192.0.0.192/", "http://[::ffff:c000:c0]/", "http://3221225664/", "http://0xc0.192/"]
)
def test_a_url_is_refused_by_the_address_in_it(url: str) -> None:
    with pytest.raises(UrlRefused, match="not a public address"):
        read_url(url)


def test_an_engine_may_import_the_rules_without_django() -> None:
    code = "import sys, dalston_queue.pinned; print({'django', 'redis', 'psycopg'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
