"""The cluster tests' name server, asked by a real resolver."""

from collections.abc import Iterator

import dns.resolver
import pytest

from tests.cluster import dns as name_server
from tests.cluster.dns import Records


@pytest.fixture
def records() -> Records:
    """One name of two addresses."""
    known = Records()
    known.set("headway.test", ["127.0.0.1", "127.0.0.2"])
    return known


@pytest.fixture
def resolver(records: Records) -> Iterator[dns.resolver.Resolver]:
    """A resolver that asks the server."""
    with name_server.served(records) as address:
        host, _, port = address.rpartition(":")
        asking = dns.resolver.Resolver(configure=False)
        asking.nameservers, asking.port = [host], int(port)
        yield asking


def _addresses(resolver: dns.resolver.Resolver, name: str) -> set[str]:
    return {record.to_text() for record in resolver.resolve(name, "A")}


def test_a_name_has_the_addresses_that_it_was_given_last(records: Records, resolver: dns.resolver.Resolver) -> None:
    """A change is in the next answer, which nobody may remember; names are the same in capitals."""
    assert _addresses(resolver, "headway.test") == {"127.0.0.1", "127.0.0.2"}
    records.set("headway.test", ["127.0.0.3"])
    answer = resolver.resolve("HEADWAY.test", "A")
    assert [record.to_text() for record in answer] == ["127.0.0.3"]
    assert answer.rrset is not None
    assert answer.rrset.ttl == 0
    assert records.asked["headway.test", "A"] == 2


def test_absence_has_a_reason(records: Records, resolver: dns.resolver.Resolver) -> None:
    """A name that is not there, a known one without records of a type, and one whose addresses are all gone."""
    with pytest.raises(dns.resolver.NXDOMAIN):
        resolver.resolve("other.test", "A")
    with pytest.raises(dns.resolver.NoAnswer):
        resolver.resolve("headway.test", "TXT")
    records.set("headway.test", [])
    with pytest.raises(dns.resolver.NoAnswer):
        resolver.resolve("headway.test", "A")
