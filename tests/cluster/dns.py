"""A name server on loopback that gives one name several addresses, which a test changes at any time.

KEDA's client resolves a scaler by it at `dns://127.0.0.1:PORT/headway.test:6000`, as it does a headless Service by the
cluster's own: round_robin has several addresses, and a changed answer is found when a connection ends (grpc-go resolves
anew only then, at most once in 30 s).
"""

import socketserver
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import IPv4Address

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

# As many A records as fit into 512 bytes, the least that every client of DNS accepts, with a name of any length.
MOST_ADDRESSES = 14
_TTL_S = 0
_POLL_S = 0.05


class Records:
    """Names, their addresses, and how often each was asked for; for the test's thread and the server's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._addresses: dict[dns.name.Name, tuple[str, ...]] = {}
        self._asked: Counter[tuple[dns.name.Name, str]] = Counter()

    def set(self, name: str, addresses: Sequence[str]) -> None:
        """Let a name have these IPv4 addresses from now on, in this order; with none it exists, without an address."""
        if len(addresses) > MOST_ADDRESSES:
            raise ValueError(f"addresses of {name} must be at most {MOST_ADDRESSES}, were {len(addresses)}")
        checked = tuple(str(IPv4Address(address)) for address in addresses)
        with self._lock:
            self._addresses[dns.name.from_text(name)] = checked

    def remove(self, name: str) -> None:
        """Let a name exist no more; KeyError if it did not."""
        with self._lock:
            del self._addresses[dns.name.from_text(name)]

    def asked(self, name: str, kind: str = "A") -> int:
        """Return how many queries there were for a name, known or not, and a type of record."""
        with self._lock:
            return self._asked[dns.name.from_text(name), kind]

    def count(self, name: dns.name.Name, kind: str) -> tuple[str, ...] | None:
        """Count a query; return the addresses of its name, None for a name that does not exist."""
        with self._lock:
            self._asked[name, kind] += 1
            return self._addresses.get(name)


class _Server(socketserver.UDPServer):
    """Answers queries from the records, one at a time."""

    def __init__(self, records: Records) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.records = records


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Answer one datagram; what is not a query stays without an answer."""
        datagram, sock = self.request
        if (answer := _answer(self.server.records, datagram)) is not None:
            sock.sendto(answer, self.client_address)


def _answer(records: Records, datagram: bytes) -> bytes | None:
    try:
        query = dns.message.from_wire(datagram)
    except dns.exception.DNSException:
        return None
    if query.flags & dns.flags.QR or query.opcode() != dns.opcode.QUERY or len(query.question) != 1:
        return None
    [question] = query.question
    addresses = records.count(question.name, dns.rdatatype.to_text(question.rdtype))
    response = dns.message.make_response(query)
    # Go takes an empty answer without this flag for a broken server, and asks again.
    response.flags |= dns.flags.AA
    if addresses is None:
        response.set_rcode(dns.rcode.NXDOMAIN)
    elif addresses and question.rdtype == dns.rdatatype.A and question.rdclass == dns.rdataclass.IN:
        # One set for each, as dnspython shuffles what is in a set.
        response.answer += [dns.rrset.from_text(question.name, _TTL_S, "IN", "A", each) for each in addresses]
    return response.to_wire()


@contextmanager
def serving(records: Records) -> Iterator[int]:
    """Serve these records on 127.0.0.1 by UDP; yield the port."""
    with _Server(records) as server:
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), name="dns")
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
