"""Print as JSON what the official Python client gets from our protected example, where it logs in."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import mcp.client.auth as auth
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

try:
    import httpx2 as httpx
except ImportError:
    import httpx  # type: ignore[import-not-found,no-redef]

LIMIT = 50.0
CALLBACK = "http://127.0.0.1:7/callback"


class InMemoryStorage:
    """What the client was given, in memory."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class Person:
    """Signs in, agrees, and says where the browser was sent."""

    came: dict[str, list[str]] = {}

    async def goes(self, url: str) -> None:
        async with httpx.AsyncClient(follow_redirects=True, trust_env=False) as web:
            page = await web.get(url)
            page = await web.post(page.url, data={"name": "ada", "password": "lovelace"})
            form = {"ticket": only_match(r'name="ticket" value="([^"]*)"', page.text), "decision": "allow"}
            onward = await web.post(only_match(r'action="([^"]*)"', page.text), data=form)
            url = only_match(r'http-equiv="refresh" content="0; url=([^"]*)"', onward.text)
            self.came = parse_qs(urlsplit(url).query)

    async def comes_back(self) -> Any:
        params = {name: values[0] for name, values in self.came.items()}
        kind = getattr(auth, "AuthorizationCodeResult", None)
        if kind is None:
            return params["code"], params["state"]
        return kind(**{name: value for name, value in params.items() if name in ("code", "state", "iss")})


def only_match(pattern: str, page: str) -> str:
    match = re.search(pattern, page)
    assert match, page
    return unescape(match[1])


async def main(url: str) -> None:
    storage, person = InMemoryStorage(), Person()
    metadata = OAuthClientMetadata(client_name="The official client", redirect_uris=[CALLBACK])  # type: ignore[list-item]
    provider = auth.OAuthClientProvider(
        url, metadata, storage, redirect_handler=person.goes, callback_handler=person.comes_back
    )
    async with httpx.AsyncClient(auth=provider, timeout=30.0) as http:
        async with streamable_http_client(url, http_client=http) as streams:
            async with ClientSession(*streams[:2]) as session:
                await session.initialize()
                result = await session.call_tool("add_note", {"text": "tea"})
    print(json.dumps({"said": result.content[0].text, "scope": storage.tokens.scope, "iss": person.came["iss"][0]}))


asyncio.run(asyncio.wait_for(main(sys.argv[1]), LIMIT))
