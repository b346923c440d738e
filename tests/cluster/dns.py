"""A name server for one name of several addresses, which a test changes while KEDA's client resolves it.

KEDA's client asks it where `scalerAddress` names it, `dns://127.0.0.1:PORT/headway.test:6000`: grpc-go's resolver with
an authority. Messages are dnspython's; this is only the loop.
"""

import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

_MOST_BYTES = 4096
_TTL_S = 0  # nobody may remember an answer


class Records:
    """The addresses of names, and how often each name was asked for."""

    def __init__(self) -> None:
        self._addresses: dict[dns.name.Name, tuple[str, ...]] = {}
        self._lock = threading.Lock()
        self.asked: Counter[tuple[str, str]] = Counter()  # by name and type of record

    def set(self, name: str, addresses: Sequence[str]) -> None:
        """Give a name these IPv4 addresses from now on."""
        with self._lock:
            self._addresses[dns.name.from_text(name)] = tuple(addresses)

    def answer(self, query: dns.message.Message) -> dns.message.Message:
        """Return the answer: no such name, nothing of that type, or the addresses."""
        response = dns.message.make_response(query)
        response.flags |= dns.flags.AA
        question = query.question[0]
        with self._lock:
            self.asked[question.name.to_text(omit_final_dot=True).lower(), dns.rdatatype.to_text(question.rdtype)] += 1
            addresses = self._addresses.get(question.name)
        if addresses is None:
            response.set_rcode(dns.rcode.NXDOMAIN)
        elif question.rdtype == dns.rdatatype.A and addresses:
            response.answer.append(dns.rrset.from_text_list(question.name, _TTL_S, "IN", "A", addresses))
        return response


@contextmanager
def served(records: Records) -> Iterator[str]:
    """Answer on a free port of loopback; give the address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=_answer_all, args=(server, records), daemon=True)
        thread.start()
        try:
            yield "{}:{}".format(*server.getsockname())
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
                waker.sendto(b"", server.getsockname())  # nothing: the end
            thread.join()


def _answer_all(server: socket.socket, records: Records) -> None:
    while True:
        wire, client = server.recvfrom(_MOST_BYTES)
        if not wire:
            return
        try:
            query = dns.message.from_wire(wire)
        except dns.exception.DNSException:
            continue  # not a question
        server.sendto(records.answer(query).to_wire(), client)
