"""The headers of proxies change the scope of a request as in uvicorn, and no request waits in its middleware."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from mcp_products.hosting.uvicorn_protocols import ProxyHeaders, run_to_end

FORWARDED = [(b"x-forwarded-proto", b"https"), (b"x-forwarded-for", b"203.0.113.7, 127.0.0.1")]


async def received_scope(make: Any, scope: dict[str, Any]) -> dict[str, Any]:
    """Return the scope that an application gets from a middleware."""
    seen: list[dict[str, Any]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0)
        seen.append(dict(scope))

    await make(ProxyHeadersMiddleware(application, trusted_hosts="127.0.0.1"))(dict(scope), None, None)
    return seen[0]


@pytest.mark.parametrize("kind", ["http", "lifespan"])
@pytest.mark.parametrize("client", [("127.0.0.1", 5000), ("198.51.100.1", 5000), None])
@pytest.mark.parametrize("headers", [FORWARDED, FORWARDED[:1], FORWARDED[1:], []])
async def test_a_request_has_the_scope_that_uvicorn_gives_it(kind: str, client: Any, headers: Any) -> None:
    scope = {"type": kind, "scheme": "http", "client": client, "headers": headers}
    expected = await received_scope(lambda middleware: middleware, scope)
    assert await received_scope(ProxyHeaders, scope) == expected
    is_read = kind == "http" and client == ("127.0.0.1", 5000) and headers == FORWARDED
    assert (expected["client"] == ("203.0.113.7", 0) and expected["scheme"] == "https") == is_read


def test_a_middleware_that_waits_is_refused() -> None:
    with pytest.raises(RuntimeError, match="waits"):
        run_to_end(asyncio.sleep(0))
