"""Addresses to listen on."""

import pytest

from scaler.config.address import Address


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        (":8080", "", 8080, False),
        ("127.0.0.1:0", "127.0.0.1", 0, True),
        ("[::1]:9000", "::1", 9000, True),
        ("localhost:80", "localhost", 80, True),
        ("0.0.0.0:80", "0.0.0.0", 80, False),  # noqa: S104 - nothing is bound
        ("[::]:80", "::", 80, False),
        ("10.1.2.3:80", "10.1.2.3", 80, False),
        ("example.test:80", "example.test", 80, False),
    ],
)
def test_addresses(text: str, host: str, port: int, loopback: bool) -> None:
    """Host and port are told apart, and only this machine's own names count as loopback."""
    address = Address.parse(text)
    assert (address.host, address.port, address.loopback) == (host, port, loopback)
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "8080", ":", ":http", ":-1", "::1:80", "[::1]", "host:", ":65536", ":\u0661"])
def test_what_is_none(text: str) -> None:
    """What cannot be listened on is named in the error."""
    with pytest.raises(ValueError, match="address must"):
        Address.parse(text)
