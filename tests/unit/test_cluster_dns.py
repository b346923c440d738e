"""The name server of the cluster tests, asked by dnspython's resolver over UDP."""

import socket
from collections.abc import Iterator
from contextlib import suppress

import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.resolver
import pytest

from tests.cluster.dns import MOST_ADDRESSES, Records, serving

NAME = "headway.test"
PATIENCE_S = 10.0


@pytest.fixture
def records() -> Records:
    """Two addresses of one name."""
    made = Records()
    made.set(NAME, ["127.0.0.1", "127.0.0.2"])
    return made


@pytest.fixture
def port(records: Records) -> Iterator[int]:
    """The port of a server of these records."""
    with serving(records) as port:
        yield port


def resolver_at(port: int) -> dns.resolver.Resolver:
    """Make a resolver that asks this server and no other."""
    made = dns.resolver.Resolver(configure=False)
    made.nameservers, made.port, made.lifetime = ["127.0.0.1"], port, PATIENCE_S
    return made


def addresses(port: int, name: str = NAME) -> list[str]:
    """Resolve a name."""
    return [record.to_text() for record in resolver_at(port).resolve(name, "A")]


def test_a_name_has_all_its_addresses_and_no_cache_may_keep_them(port: int) -> None:
    """All addresses are in one answer, in the order that they were given, with a lifetime of zero."""
    answer = resolver_at(port).resolve(NAME, "A")

    assert [record.to_text() for record in answer] == ["127.0.0.1", "127.0.0.2"]
    assert answer.rrset is not None
    assert answer.rrset.ttl == 0


def test_the_next_answer_has_the_new_addresses(records: Records, port: int) -> None:
    """What the test sets is what the next query gets."""
    assert addresses(port) == ["127.0.0.1", "127.0.0.2"]

    records.set(NAME, ["127.0.0.3"])

    assert addresses(port) == ["127.0.0.3"]


def test_names_are_found_whatever_their_case(port: int) -> None:
    """Some resolvers mix the case of what they ask."""
    assert addresses(port, "HeadWay.TEST.") == ["127.0.0.1", "127.0.0.2"]


@pytest.mark.parametrize("kind", ["AAAA", "TXT", "SRV"])
def test_other_types_of_a_known_name_have_an_authoritative_empty_answer(port: int, kind: str) -> None:
    """No error and no answer; authoritative, as Go's resolver takes it for a broken server otherwise."""
    answer = dns.query.udp(dns.message.make_query(NAME, kind), "127.0.0.1", PATIENCE_S, port)

    assert answer.rcode() == dns.rcode.NOERROR
    assert not answer.answer
    assert answer.flags & dns.flags.AA


def test_a_name_without_addresses_exists(records: Records, port: int) -> None:
    """A Service of which nothing is ready has no address, which is not the same as no such name."""
    records.set(NAME, [])

    with pytest.raises(dns.resolver.NoAnswer):
        addresses(port)


@pytest.mark.parametrize("name", ["other.test", f"_grpc_config.{NAME}"])
def test_unknown_names_do_not_exist(port: int, name: str) -> None:
    """Names that were never set, beneath a known one too, do not exist."""
    with pytest.raises(dns.resolver.NXDOMAIN):
        resolver_at(port).resolve(name, "TXT")


def test_a_removed_name_exists_no_more(records: Records, port: int) -> None:
    """It is as if it had never been set."""
    records.remove(NAME)

    with pytest.raises(dns.resolver.NXDOMAIN):
        addresses(port)


def test_queries_are_counted_by_name_and_type(records: Records, port: int) -> None:
    """A test waits for a client's next resolution by its count; unknown names are counted too."""
    addresses(port)
    addresses(port)
    with suppress(dns.resolver.NXDOMAIN):
        resolver_at(port).resolve("other.test", "TXT")

    assert records.asked(NAME) == 2
    assert records.asked(NAME, "AAAA") == 0
    assert records.asked("other.test", "TXT") == 1


CUT = dns.message.make_query(NAME, "A", id=1).to_wire()[:-3]


@pytest.mark.parametrize("datagram", [b"", b"\0", b"\xff" * 40, CUT], ids=["empty", "short", "noise", "cut"])
def test_what_is_not_a_query_does_not_end_the_server(port: int, datagram: bytes) -> None:
    """Rubbish stays without an answer, and the next query is answered."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(datagram, ("127.0.0.1", port))

        assert addresses(port) == ["127.0.0.1", "127.0.0.2"]


def test_a_response_is_not_answered(port: int) -> None:
    """Two servers never answer each other without an end."""
    response = dns.message.make_response(dns.message.make_query(NAME, "A"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(response.to_wire(), ("127.0.0.1", port))
        assert addresses(port)  # the server is past the response
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(512)


def test_what_is_no_ipv4_address_is_refused(records: Records) -> None:
    """A slip in a test is an error in that test, not an empty answer."""
    with pytest.raises(ValueError, match="localhost"):
        records.set(NAME, ["localhost"])


def test_the_most_addresses_fit_into_the_least_that_every_client_accepts(records: Records, port: int) -> None:
    """The longest name's answer with the most addresses has at most 512 bytes; one more is refused."""
    longest = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
    most = [f"127.0.0.{number}" for number in range(1, MOST_ADDRESSES + 1)]
    records.set(longest, most)

    answer = dns.query.udp(dns.message.make_query(longest, "A"), "127.0.0.1", PATIENCE_S, port)

    assert len(answer.to_wire()) <= 512
    assert len(answer.answer[0]) == MOST_ADDRESSES
    with pytest.raises(ValueError, match=f"at most {MOST_ADDRESSES}, were {MOST_ADDRESSES + 1}"):
        records.set(longest, [*most, "127.0.0.99"])
