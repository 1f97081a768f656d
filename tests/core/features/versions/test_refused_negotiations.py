"""A server that refuses a client, or any request for now, before they have agreed on a version."""

from __future__ import annotations

from typing import Any

import pytest
from support.http.sockets import listening

from mcp_generated import connect
from mcp_runtime.errors import HTTPStatusError, LocalError, RemoteJSONRPCError


class Refusing:
    """An application that answers each request with a status, and as JSON-RPC with an error."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.body = body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json" if self.body else b"text/plain")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})

    async def close(self) -> None:
        """Nothing is open."""


ERROR = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "not now"}}'


@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 503])
@pytest.mark.parametrize(
    ("body", "kind"), [(b"", HTTPStatusError), (ERROR, RemoteJSONRPCError)], ids=["empty", "error"]
)
async def test_a_refusal_that_is_not_about_the_version_is_raised_as_it_is(status: int, body: bytes, kind: Any) -> None:
    async with listening(Refusing(status, body)) as port:
        with pytest.raises(kind) as raised:
            async with connect(f"http://127.0.0.1:{port}/mcp", revisions=["2026-07-28"]):
                pass
    assert raised.value.status == status and "does not support" not in str(raised.value)


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_server_that_does_not_know_the_request_does_not_support_the_version(status: int) -> None:
    async with listening(Refusing(status, b"")) as port:
        with pytest.raises(LocalError, match="does not support 2026-07-28"):
            async with connect(f"http://127.0.0.1:{port}/mcp", revisions=["2026-07-28"]):
                pass
