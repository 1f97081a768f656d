"""An authorization server for the suite, where one person is signed in; and that person, who agrees to what is asked.

Run it: `python tests/conformance/authorization.py --port 9000`.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from html import unescape
from typing import Final

import httpx2
import uvicorn

from mcp_products.auth.authorization_server.app import AuthorizationServer
from mcp_products.auth.authorization_server.http import HTTPRequest
from mcp_products.auth.authorization_server.models import OAuthClient

CLIENT: Final = "conformance"


class Somebody:
    """A sign-in of one person, who is always there."""

    async def current_user(self, request: HTTPRequest) -> str | None:
        return "somebody"

    def login_url(self, return_to: str) -> str:
        return return_to


async def agree(url: str) -> None:
    """Do in a browser what a person does: open the page, allow what it asks, and go where that leads."""
    async with httpx2.AsyncClient(trust_env=False) as browser:
        page = (await browser.get(url)).text
        form = {"ticket": _only_match(r'name="ticket" value="([^"]*)"', page), "decision": "allow"}
        onward = (await browser.post(_only_match(r'action="([^"]*)"', page), data=form)).text
        await browser.get(_only_match(r'http-equiv="refresh" content="0; url=([^"]*)"', onward))


def _only_match(pattern: str, page: str) -> str:
    match = re.search(pattern, page)
    assert match, page
    return unescape(match[1])


def main() -> None:
    arguments = ArgumentParser(description=__doc__)
    arguments.add_argument("--port", type=int, default=9000)
    port: int = arguments.parse_args().port
    issuer = f"http://127.0.0.1:{port}"
    client = OAuthClient.static(CLIENT, ("http://127.0.0.1/callback",), name="The conformance suite")
    server = AuthorizationServer(issuer, resources=[f"{issuer}/mcp"], login=Somebody(), clients=[client])
    uvicorn.run(server, port=port, log_level="warning")


if __name__ == "__main__":
    main()
