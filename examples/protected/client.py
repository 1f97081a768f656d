"""A client that logs in: a browser opens once, and the tokens are stored in a file that only its owner can read.

Run it: `python examples/protected/client.py [URL OF THE MCP SERVER] [FILE]`.
"""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Callable

from mcp_generated import HTTPOptions, connect, printable
from mcp_generated.auth import AuthorizationCode, FileTokenStorage, LoopbackBrowser, OAuthClientProvider


async def main(
    url: str = "http://127.0.0.1:8000/mcp",
    file: str = "tokens.json",
    *,
    open_url: Callable[[str], object] = webbrowser.open,
) -> None:
    """Add a note and print all notes of the user."""
    browser = LoopbackBrowser(open_url=open_url)
    try:
        auth = OAuthClientProvider(
            url,
            AuthorizationCode(browser, browser.redirect_uri, client_name="Notes on the command line"),
            storage=FileTokenStorage(file),
        )
        async with connect(url, http=HTTPOptions(auth=auth)) as client:
            for name, arguments in (("add_note", {"text": "buy milk"}), ("list_notes", {})):
                result = await client.call_tool(name, arguments, raise_on_error=False)
                print(*(printable(str(getattr(block, "text", block))) for block in result.content))
    finally:
        browser.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
