"""A client that logs in: a browser opens once, and what was given there is kept in a file that its owner alone can read.

Run it: `python examples/protected/client.py [URL OF THE MCP SERVER] [FILE]`.
"""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Callable

from mcp_generated import connect
from mcp_runtime.auth.client.browser import LoopbackBrowser
from mcp_runtime.auth.client.grants import AuthorizationCode
from mcp_runtime.auth.client.file_storage import FileTokenStorage
from mcp_runtime.auth.client.provider import OAuthClientProvider
from mcp_runtime.transports.http_client.connection import HTTPOptions


async def main(
    url: str = "http://127.0.0.1:8000/mcp",
    file: str = "tokens.json",
    *,
    open_url: Callable[[str], object] = webbrowser.open,
) -> None:
    browser = LoopbackBrowser(open_url=open_url)
    try:
        auth = OAuthClientProvider(
            url,
            AuthorizationCode(browser, browser.redirect_uri, client_name="Notes on the command line"),
            storage=FileTokenStorage(file),
        )
        async with connect(url, http=HTTPOptions(auth=auth)) as client:
            for name, arguments in (("add_note", {"text": "buy milk"}), ("list_notes", {})):
                result = await client.call_tool(name=name, arguments=arguments)
                print(*(getattr(each, "text", each) for each in result.content))
    finally:
        browser.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
