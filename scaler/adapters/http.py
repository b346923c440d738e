"""HTTP beside the wire: `/metrics` and the probes on one port, `/plan` for people on the admin port."""

import asyncio
import socket
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from scaler.config.address import Address, is_loopback

Ready = Callable[[], tuple[bool, str]]
PlanView = Callable[[str | None, str | None, int, str | None], Mapping[str, Any]]

DEFAULT_LIMIT: Final = 100
MAX_LIMIT: Final = 1000

_INDEX: Final = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Headway</title>
<h1>Headway</h1>
<p><a href="/plan">/plan</a>: what every workload should have, and why. Filters:
<code>?namespace=&amp;name=&amp;limit=&amp;continue=</code></p>
</html>
"""
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def metrics_app(registry: CollectorRegistry, ready: Ready) -> web.Application:
    """Return an app with `/metrics`, `/healthz` (the process answers) and `/readyz` (`ready` says so, and why)."""

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get(hdrs.ACCEPT, ""))
        # Rendering a big registry takes long; a thread lets the loop serve probes meanwhile.
        body = await asyncio.to_thread(encode, registry)
        response = web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})
        response.enable_compression()
        return response

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        is_ready, reason = ready()
        return web.Response(text=f"{reason}\n", status=200 if is_ready else 503)

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def admin_app(plan: PlanView) -> web.Application:
    """Return an app with `/plan` and a page that links it.

    `plan(namespace, name, limit, continue_)` returns the JSON document; a ValueError of it is the caller's bad request.
    """

    async def show_plan(request: web.Request) -> web.Response:
        query = request.query
        try:
            limit = _limit(query.get("limit"))
            document = plan(query.get("namespace"), query.get("name"), limit, query.get("continue"))
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response(document)

    async def index(_: web.Request) -> web.Response:
        return web.Response(text=_INDEX, content_type="text/html")

    app = web.Application(middlewares=[_local_only])
    app.router.add_get("/plan", show_plan)
    app.router.add_get("/", index)
    return app


def admin_server(plan: PlanView, address: str) -> "HttpServer":
    """Return the server of the admin port. ValueError for an address that other machines can reach.

    The plan shows every tenant's workloads, and nothing here checks who asks.
    """
    if not Address.parse(address).loopback:
        raise ValueError(f"admin address must be a loopback address (127.0.0.1, [::1], localhost), was {address!r}")
    return HttpServer(admin_app(plan), address)


class HttpServer:
    """Serves one app on one address; an async context, or `start` and `stop`."""

    def __init__(self, app: web.Application, address: str) -> None:
        self._address = Address.parse(address)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self.port = 0  # the port that was bound, once started

    async def start(self) -> None:
        """Bind and serve. OSError when the address cannot be bound."""
        await self._runner.setup()
        bound = _listen(self._address)
        self.port = bound.getsockname()[1]
        await web.SockSite(self._runner, bound).start()

    async def stop(self) -> None:
        """Stop serving; requests under way have a second to finish."""
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


@web.middleware
async def _local_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse a request for another host: a web page whose name resolves to 127.0.0.1 must not read the plan."""
    local = _is_local(request.host)
    response = await handler(request) if local else web.Response(status=403, text="not a local name\n")
    response.headers.update(_HEADERS)
    return response


def _is_local(host_header: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host_header}").hostname or "")
    except ValueError:
        return False


def _limit(text: str | None) -> int:
    limit = DEFAULT_LIMIT if not text else int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= limit <= MAX_LIMIT:
        raise ValueError(f"limit must be from 1 to {MAX_LIMIT}, was {text!r}")
    return limit


def _listen(address: Address) -> socket.socket:
    """Return one listening socket, for both IP versions where the host is all interfaces: so there is one port."""
    if not address.host and socket.has_dualstack_ipv6():
        return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    return socket.create_server((address.host, address.port), family=family)
