"""A session over HTTP without a client class, from an address or of a user."""

from __future__ import annotations

from typing import Any

import httpx2


class Session:
    """A session of a client with an address, or with a user."""

    def __init__(self, url: str, revision: str, address: str = "127.0.0.1", user: str | None = None) -> None:
        self.url = url
        self.revision = revision
        headers = {"accept": "application/json, text/event-stream"}
        headers |= {} if user is None else {"authorization": f"Bearer {user}"}
        transport = httpx2.AsyncHTTPTransport(local_address=address)
        self.web = httpx2.AsyncClient(transport=transport, timeout=60, headers=headers)

    async def post(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the response to a message; empty for none."""
        response = await self.web.post(self.url, json={"jsonrpc": "2.0", **message})
        if session := response.headers.get("mcp-session-id"):
            self.web.headers["mcp-session-id"] = session
        if not response.content:
            return {}
        text = response.text.strip()
        if text.startswith(("id:", "event:", "data:", ":", "retry:")):
            text = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data: {")][-1]
        return httpx2.Response(200, content=text).json()  # type: ignore[no-any-return]

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Open the session, and return the response to a request, or the error before it."""
        opened = await self.open()
        return opened if "error" in opened else await self.request(method, params)

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the response to a request."""
        return await self.post({"id": 2, "method": method, "params": params})

    async def open(self) -> dict[str, Any]:
        """Open the session, and return the response."""
        params = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        opened = await self.post({"id": 1, "method": "initialize", "params": params})
        if "error" not in opened:
            self.web.headers["mcp-protocol-version"] = self.revision
            await self.post({"method": "notifications/initialized"})
        return opened

    async def end(self) -> None:
        """End the session."""
        await self.web.delete(self.url)
