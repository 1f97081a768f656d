"""A login that nobody waits for any more: it ends at once, and with it the connections that browsers have left open.

Since Python 3.12, a server of asyncio waits for its connections when it is closed.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from mcp_products.auth.client.browser import LoopbackBrowser

URL = "https://as.example/authorize?state=right"


@pytest.mark.parametrize("bytes_sent", [b"", b"GET /callback?code=c", b"GET /callback?code=c&state=wrong HTTP/1.1\r\n"])
@pytest.mark.parametrize("connections", [1, 3])
@pytest.mark.deadline(10)
async def test_a_login_that_is_cancelled_closes_what_browsers_left_open(bytes_sent: bytes, connections: int) -> None:
    opened = asyncio.Event()
    loop = asyncio.get_running_loop()
    with closing(LoopbackBrowser(open_url=lambda url: loop.call_soon_threadsafe(opened.set))) as browser:
        port = urlsplit(browser.redirect_uri).port
        login = asyncio.create_task(browser(URL))
        await opened.wait()
        ends = [await asyncio.open_connection("127.0.0.1", port) for _ in range(connections)]
        for _, writer in ends:
            writer.write(bytes_sent)
        for _ in range(20):
            await asyncio.sleep(0)  # The server takes the connections.
        login.cancel()
        done, _ = await asyncio.wait([login], timeout=5)
        assert done and login.cancelled()
        for reader, writer in ends:
            await _read_to_the_end(reader)
            writer.close()
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)


async def _read_to_the_end(reader: asyncio.StreamReader) -> None:
    """Read until the other side has closed the connection, or reset it. A side that does neither never returns."""
    try:
        await reader.read()
    except ConnectionError:
        return
