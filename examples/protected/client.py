"""A client that logs in: a browser opens once, and what was given there is kept in a file that its owner alone can read.

Run it: `python examples/protected/client.py [URL OF THE MCP SERVER] [FILE]`.
"""

from __future__ import annotations

import asyncio
import sys
import webbrowser
from collections.abc import Callable

from mcp_generated import connect
from mcp_runtime.auth.browser import Browser
from mcp_runtime.auth.grants import AuthorizationCode
from mcp_runtime.auth.keeping import InFile
from mcp_runtime.auth.oauth import OAuth
from mcp_runtime.transports.http_client.channel import Reach


async def main(
    url: str = "http://127.0.0.1:8000/mcp",
    file: str = "tokens.json",
    *,
    open_url: Callable[[str], object] = webbrowser.open,
) -> None:
    browser = Browser(open_url=open_url)
    try:
        auth = OAuth(
            url, AuthorizationCode(browser, browser.redirect, name="Notes on the command line"), storage=InFile(file)
        )
        async with connect(url, reach=Reach(auth=auth)) as client:
            for name, arguments in (("add_note", {"text": "buy milk"}), ("list_notes", {})):
                result = await client.call_tool(name=name, arguments=arguments)
                print(*(getattr(each, "text", each) for each in result.content))
    finally:
        browser.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
