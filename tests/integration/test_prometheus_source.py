"""PrometheusSource against a server over real HTTP that does what servers do on bad days."""

import asyncio
import base64
import json
import re
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from scaler.adapters.clock import ScaledClock
from scaler.adapters.prometheus import PrometheusSettings, PrometheusSource
from scaler.core.values import Reason
from scaler.ports import Clock, SampleBatch, SampleRequest, SourceError
from tests.metrics_fakes import T0, FixedClock, Handler, answering, http_server, prometheus_answer, vllm_pod

RUNNING = SampleRequest(("vllm:num_requests_running",), ("demo",))
GOOD = prometheus_answer(s for s in vllm_pod() if s.name == "vllm:num_requests_running")
# Long: a loaded machine is slow at times, and what ends early ends for a reason that its test names.
PATIENT: dict[str, Any] = {"retries": 0, "connect_timeout_s": 20.0, "read_timeout_s": 20.0, "total_timeout_s": 40.0}


@asynccontextmanager
async def source_for(url: str, clock: Clock | None = None, **settings: Any) -> AsyncIterator[PrometheusSource]:
    """Make a source, and close it at the end; no thread of it is left."""
    source = PrometheusSource(PrometheusSettings(url, **(PATIENT | settings)), clock or FixedClock())
    try:
        yield source
    finally:
        async with asyncio.timeout(60):  # a thread that cannot be freed fails a test, and does not hang it
            await source.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("prometheus")]


async def fetch(handler: Handler, **settings: Any) -> SampleBatch:
    """Fetch once from a server that answers so."""
    async with http_server(handler) as server, source_for(server.url, **settings) as source:
        return await source.fetch(RUNNING, T0)


async def failure(handler: Handler, **settings: Any) -> SourceError:
    """Return the error of a fetch from a server that answers so."""
    with pytest.raises(SourceError) as caught:
        await fetch(handler, **settings)
    return caught.value


async def test_one_query_per_fetch_over_one_connection() -> None:
    """However many names and namespaces, a fetch is one query; connections are kept between fetches."""
    names = tuple(f"vllm:m{i}" for i in range(30))
    namespaces = tuple(f"team-{i}" for i in range(500))
    async with http_server(answering(GOOD)) as server, source_for(server.url) as source:
        for _ in range(5):
            await source.fetch(SampleRequest(names, namespaces), T0)
    assert len(server.requests) == 5
    assert {r["path"] for r in server.requests} == {"/api/v1/query"}
    assert len(server.peers) == 1


async def test_the_selector_quotes_and_escapes() -> None:
    """Names and namespaces match exactly, whatever characters a namespace has."""
    async with http_server(answering(GOOD)) as server, source_for(server.url) as source:
        await source.fetch(SampleRequest(("b:x", "a"), ('x"} or up{a="', "n.s")), T0)
    query = server.requests[0]["form"]["query"]
    assert query == r'{__name__=~"a|b:x",namespace=~"n\\.s|x\"\\}\\ or\\ up\\{a=\""}[120000ms]'


async def test_a_name_that_is_none_is_refused() -> None:
    """A metric name that could end a selector never reaches the server."""
    async with http_server(answering(GOOD)) as server, source_for(server.url) as source:
        with pytest.raises(ValueError, match="metric names must match"):
            await source.fetch(SampleRequest(('up"}',)), T0)
    assert server.requests == []


async def test_it_asks_in_the_wall_s_time_and_answers_in_the_clock_s() -> None:
    """In a rehearsal at 60 times the speed, the look-back shrinks and time stamps become the rehearsal's."""
    clock = ScaledClock(speed=60.0, wall_origin_s=T0, origin_s=500.0)
    async with http_server(answering(GOOD)) as server, source_for(server.url, clock) as source:
        batch = await source.fetch(RUNNING, 500.0)
    assert server.requests[0]["form"]["query"].endswith("[2000ms]")
    assert {s.at_s for s in batch.samples} == {500.0}


async def test_an_empty_answer_is_no_error() -> None:
    """That nothing matches is an answer without samples; what that means is the projection's to say."""
    assert (await fetch(answering(prometheus_answer([])))).samples == ()


@pytest.mark.parametrize("said", [{"warnings": ["store-3 did not answer"]}, {"isPartial": True}])
async def test_a_partial_answer_is_marked(said: dict[str, Any]) -> None:
    """What the server says of its own answer is not dropped; the next, whole answer is whole again."""
    answers = iter([GOOD | said, GOOD])

    async def handler(request: web.Request) -> web.Response:
        return web.json_response(next(answers))

    async with http_server(handler) as server, source_for(server.url) as source:
        partial, whole = await source.fetch(RUNNING, T0), await source.fetch(RUNNING, T0)
    assert len(partial.samples) == 2
    assert partial.partial
    assert whole.partial == ()


async def test_an_annotation_is_not_a_partial_answer() -> None:
    """`infos` are remarks about the query; nothing is missing."""
    assert (await fetch(answering(GOOD | {"infos": ["might not be a counter"]}))).partial == ()


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (400, {"status": "error", "errorType": "bad_data", "error": "parse error"}),
        (401, "Unauthorized"),
        (422, {"status": "error", "errorType": "execution", "error": "too many samples"}),
        (429, "slow down"),
        (500, {"status": "error", "errorType": "internal", "error": "boom"}),
        (503, "no upstream"),
        (200, {"status": "error", "errorType": "internal", "error": "boom"}),
        (200, GOOD | {"status": "error", "errorType": "internal", "error": "gave up half way"}),
        (200, "<html>log in</html>"),
        (200, {"status": "success"}),
        (200, {"status": "success", "data": {"resultType": "vector", "result": []}}),
        (200, {"status": "success", "data": {"resultType": "matrix", "result": [{"values": [[1, "x"]]}]}}),
        (200, {"status": "success", "data": {"resultType": "matrix", "result": 7}}),
        (200, ["not", "an", "object"]),
        (200, "null"),
    ],
)
async def test_a_bad_answer_is_a_source_that_is_down(status: int, answer: Any) -> None:
    """4xx, 5xx, HTML, JSON of another shape: each is an error that says what came, and where from."""
    error = await failure(answering(answer, status))
    assert error.reason is Reason.SOURCE_DOWN
    assert str(error).startswith("http://127.0.0.1:")


async def test_the_server_s_own_words_are_in_the_error() -> None:
    """A person sees what the server objected to, cut to a bearable length."""
    error = await failure(answering({"status": "error", "errorType": "bad_data", "error": "x" * 9999}, 400))
    assert re.search(r"status 400, bad_data: 'x{200}'$", str(error))


async def test_a_query_that_timed_out_in_the_server_is_a_timeout_and_not_repeated() -> None:
    """Asking again would only add to the load that made it slow."""
    answer = {"status": "error", "errorType": "timeout", "error": "query timed out"}
    async with http_server(answering(answer, 503)) as server, source_for(server.url, retries=3) as source:
        with pytest.raises(SourceError) as caught:
            await source.fetch(RUNNING, T0)
    assert caught.value.reason is Reason.SOURCE_TIMEOUT
    assert len(server.requests) == 1


async def test_nobody_listens() -> None:
    """A refused connection is a source that is down."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        async with source_for(f"http://127.0.0.1:{taken.getsockname()[1]}", retries=1, backoff_s=0.0) as source:
            with pytest.raises(SourceError) as caught:
                await source.fetch(RUNNING, T0)
    assert caught.value.reason is Reason.SOURCE_DOWN


async def test_503_is_asked_again() -> None:
    """A server that is just starting answers at the second or third try."""
    answers = iter([503, 503, 200])

    async def handler(request: web.Request) -> web.Response:
        status = next(answers)
        return web.json_response(GOOD if status == 200 else {}, status=status)

    async with http_server(handler) as server, source_for(server.url, retries=2, backoff_s=0.0) as source:
        batch = await source.fetch(RUNNING, T0)
    assert len(batch.samples) == 2
    assert len(server.requests) == 3


async def test_retries_are_bounded() -> None:
    """A server that stays away is left alone after the last try."""
    async with http_server(answering({}, 503)) as server, source_for(server.url, retries=2, backoff_s=0.0) as source:
        with pytest.raises(SourceError):
            await source.fetch(RUNNING, T0)
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [400, 422, 500])
async def test_other_errors_are_not_asked_again(status: int) -> None:
    """A query that is refused will be refused again."""
    async with http_server(answering({}, status)) as server, source_for(server.url, retries=3, backoff_s=0.0) as source:
        with pytest.raises(SourceError):
            await source.fetch(RUNNING, T0)
    assert len(server.requests) == 1


async def test_a_connection_that_the_server_closed_is_opened_again() -> None:
    """A kept connection that has died in between costs a retry, and no tick."""

    async def handler(request: web.Request) -> web.Response:
        if len(server.requests) == 2:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(GOOD)

    async with http_server(handler) as server, source_for(server.url, retries=1, backoff_s=0.0) as source:
        await source.fetch(RUNNING, T0)
        assert len((await source.fetch(RUNNING, T0)).samples) == 2
    assert len(server.requests) == 3


async def test_a_slow_server_is_a_timeout() -> None:
    """A server that says nothing for the read time-out has timed out."""

    async def handler(request: web.Request) -> web.Response:
        await server.release.wait()
        return web.Response()

    async with http_server(handler) as server, source_for(server.url, read_timeout_s=0.1) as source:
        with pytest.raises(SourceError) as caught:
            await source.fetch(RUNNING, T0)
        assert caught.value.reason is Reason.SOURCE_TIMEOUT
    assert len(server.requests) == 1


async def test_a_body_without_end_is_cut_at_its_bound() -> None:
    """A body that never ends is refused when it passes the size bound; nothing waits for more."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with_data = b" " * 65536
        while True:
            await response.write(with_data)  # ends with the connection

    error = await failure(handler, max_body_bytes=2**20, total_timeout_s=60.0)
    assert error.reason is Reason.SOURCE_DOWN
    assert "must be at most 1048576 bytes" in str(error)


async def test_a_compressed_body_is_bounded_by_what_it_becomes() -> None:
    """A small body that unpacks to a large one is refused."""

    async def handler(request: web.Request) -> web.Response:
        response = web.Response(body=b" " * 2**22, content_type="application/json")
        response.enable_compression(web.ContentCoding.gzip)
        return response

    assert "must be at most 1048576 bytes" in str(await failure(handler, max_body_bytes=2**20))


@pytest.mark.parametrize("where", ["header", "body"])
async def test_a_trickle_ends_with_the_total_timeout(where: str) -> None:
    """One byte now and then keeps every wait short and the whole endless: the total bound ends it, thread and all."""
    ended = asyncio.Event()

    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n" + (b"" if where == "header" else b"Connection: close\r\n\r\n"))
        while not ended.is_set():
            writer.write(b"x")
            try:
                async with asyncio.timeout(0.02):  # the pace of the trickle
                    if not await reader.read(1):
                        ended.set()
            except TimeoutError:
                continue
            except OSError:
                ended.set()
        writer.close()

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with source_for(url, read_timeout_s=30.0, total_timeout_s=0.3) as source:
            with pytest.raises(SourceError) as caught:
                await source.fetch(RUNNING, T0)
        # The source is closed here, which waits for its threads: none still hangs in the trickle.
        assert caught.value.reason is Reason.SOURCE_TIMEOUT
        await asyncio.wait_for(ended.wait(), 10)


async def test_the_total_timeout_counts_retries() -> None:
    """Retries do not multiply the time that a tick may lose."""
    async with (
        http_server(answering({}, 503)) as server,
        source_for(server.url, retries=1000, backoff_s=0.01, total_timeout_s=0.3) as source,
    ):
        with pytest.raises(SourceError) as caught:
            await source.fetch(RUNNING, T0)
    assert caught.value.reason is Reason.SOURCE_TIMEOUT
    assert len(server.requests) < 1000


async def test_redirects_are_not_followed() -> None:
    """Credentials are not carried to wherever a redirect points."""
    async with http_server(answering(GOOD)) as elsewhere:

        async def handler(request: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"{elsewhere.url}/api/v1/query")

        error = await failure(handler)
    assert "redirects are not followed" in str(error)
    assert elsewhere.requests == []


async def test_a_bearer_token_is_read_again_when_its_file_changes(tmp_path: Path) -> None:
    """Projected service-account tokens are replaced about once an hour."""
    token = tmp_path / "token"
    token.write_text("first\n")
    async with http_server(answering(GOOD)) as server, source_for(server.url, bearer_token_file=token) as source:
        await source.fetch(RUNNING, T0)
        token.write_text("second\n")
        await source.fetch(RUNNING, T0)
    assert [r["headers"]["Authorization"] for r in server.requests] == ["Bearer first", "Bearer second"]


async def test_a_token_that_cannot_be_read_is_an_error_and_no_anonymous_call(tmp_path: Path) -> None:
    """Without its credentials a call is not made."""
    token = tmp_path / "none"
    async with http_server(answering(GOOD)) as server, source_for(server.url, bearer_token_file=token) as source:
        with pytest.raises(SourceError, match="none"):
            await source.fetch(RUNNING, T0)
    assert server.requests == []


async def test_basic_auth_and_tenant_header(tmp_path: Path) -> None:
    """User name, password from a file, and the header by which Mimir tells its tenants apart."""
    (tmp_path / "password").write_text("p:w\n")
    settings: dict[str, Any] = {"username": "headway", "password_file": tmp_path / "password", "tenant": "team-a"}
    async with http_server(answering(GOOD)) as server, source_for(server.url, **settings) as source:
        await source.fetch(RUNNING, T0)
    headers = server.requests[0]["headers"]
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"headway:p:w").decode()
    assert headers["X-Scope-OrgID"] == "team-a"


async def test_the_environment_s_credentials_are_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A .netrc of whoever runs the process adds nothing to a call."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with http_server(answering(GOOD)) as server, source_for(server.url) as source:
        await source.fetch(RUNNING, T0)
    assert "Authorization" not in server.requests[0]["headers"]


async def test_tls_with_a_private_ca_and_a_client_certificate(tmp_path: Path) -> None:
    """The server is verified against the given CA and sees our certificate; another CA is refused."""
    ca, other_ca = trustme.CA(), trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    other_ca.cert_pem.write_to_path(tmp_path / "other.pem")
    client = ca.issue_cert("headway.example")
    client.private_key_pem.write_to_path(tmp_path / "key.pem")
    client.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(context)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    files: dict[str, Any] = {
        "ca_file": tmp_path / "ca.pem",
        "cert_file": tmp_path / "cert.pem",
        "key_file": tmp_path / "key.pem",
    }
    async with http_server(answering(GOOD), ssl_context=context) as server:
        async with source_for(server.url, **files) as source:
            assert len((await source.fetch(RUNNING, T0)).samples) == 2
        async with source_for(server.url, **(files | {"ca_file": tmp_path / "other.pem"})) as source:
            with pytest.raises(SourceError, match="CERTIFICATE_VERIFY_FAILED"):
                await source.fetch(RUNNING, T0)
        async with source_for(server.url, ca_file=tmp_path / "ca.pem") as source:
            with pytest.raises(SourceError):
                await source.fetch(RUNNING, T0)


async def test_closing_ends_a_fetch_that_is_under_way() -> None:
    """Shutdown does not wait for a slow server."""
    arrived = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        arrived.set()
        await server.release.wait()
        return web.Response()

    async with http_server(handler) as server:
        source = PrometheusSource(PrometheusSettings(server.url, retries=0), FixedClock())
        fetching = asyncio.create_task(source.fetch(RUNNING, T0))
        await asyncio.wait_for(arrived.wait(), 10)
        await source.close()
        with pytest.raises(SourceError):
            await fetching


def test_the_answer_of_the_double_is_json() -> None:
    """The double answers what a real server would: plain JSON, numbers as strings."""
    assert json.loads(json.dumps(GOOD)) == GOOD


def vector(*rows: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """Return what Prometheus answers to an expression."""
    return {"status": "success", "data": {"resultType": "vector", "result": list(rows)}} | extra


ROW = {"metric": {"pod": "chat-0"}, "value": [T0 + 0.25, "3"]}


async def test_an_expression_is_evaluated_when_it_is_said() -> None:
    """A vector has its rows and the time that the server evaluated them at; a time that is given is sent along."""
    async with http_server(answering(vector(ROW))) as server, source_for(server.url) as source:
        batch = await source.vector("sum by (pod) (up)", T0)
        await source.vector("up", T0, at_s=T0 + 0.125)
    assert (list(batch.rows), batch.at_s, batch.partial) == ([({"pod": "chat-0"}, 3.0)], T0 + 0.25, ())
    forms = [request["form"] for request in server.requests]
    assert forms == [{"query": "sum by (pod) (up)"}, {"query": "up", "time": f"{T0 + 0.125:.3f}"}]


async def test_an_expression_is_evaluated_in_the_server_s_time() -> None:
    """In a rehearsal at 60 times the speed, times are the wall's on the way there and the rehearsal's back here."""
    clock = ScaledClock(speed=60.0, wall_origin_s=T0, origin_s=500.0)
    async with http_server(answering(vector(ROW))) as server, source_for(server.url, clock) as source:
        batch = await source.vector("up", 500.0)
        await source.vector("up", 500.0, at_s=batch.at_s)
    assert batch.at_s == pytest.approx(515.0)
    assert server.requests[1]["form"]["time"] == f"{T0 + 0.25:.3f}"


async def test_an_empty_vector_is_as_of_now() -> None:
    """No rows do not say when they were evaluated; a native histogram is no number, and no row."""
    histogram = {"metric": {"pod": "chat-1"}, "histogram": [T0, {"count": "1", "sum": "1"}]}
    async with http_server(answering(vector(histogram))) as server, source_for(server.url) as source:
        batch = await source.vector("up", T0 + 7, at_s=T0)
    assert (list(batch.rows), batch.at_s) == ([], T0 + 7)


async def test_a_partial_vector_is_marked() -> None:
    """What the server says of its own answer is not dropped."""
    answer = vector(ROW, warnings=["store-3 did not answer"])
    async with http_server(answering(answer)) as server, source_for(server.url) as source:
        batch = await source.vector("up", T0)
    assert batch.partial == ("store-3 did not answer",)


@pytest.mark.parametrize(
    "answer",
    [
        prometheus_answer([]),
        vector({"metric": {}, "value": [T0, "x"]}),
        vector({"metric": {}, "value": [T0]}),
        vector({"value": [T0, "1"]}),
        {"status": "success", "data": {"resultType": "scalar", "result": [T0, "1"]}},
        {"status": "success", "data": {"resultType": "vector", "result": 7}},
    ],
)
async def test_what_is_no_vector_is_an_error(answer: Any) -> None:
    """A matrix, a scalar, a row without a value: the answer is not what was asked for."""
    async with http_server(answering(answer)) as server, source_for(server.url) as source:
        with pytest.raises(SourceError) as caught:
            await source.vector("up", T0)
    assert caught.value.reason is Reason.SOURCE_DOWN


async def test_a_call_s_time_runs_from_its_turn_on() -> None:
    """With one connection, a call that waits for another is not timed out by the waiting."""
    asked = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        if len(server.requests) == 1:
            asked.set()
            await server.release.wait()
        return web.json_response(vector(ROW))

    settings: dict[str, Any] = {"connections": 1, "total_timeout_s": 1.0}
    async with http_server(handler) as server, source_for(server.url, **settings) as source:
        first = asyncio.create_task(source.vector("up", T0))
        await asked.wait()
        second = asyncio.create_task(source.vector("up", T0))
        with pytest.raises(SourceError):
            await first
        assert len((await second).rows) == 1
