"""The URL of an authorization goes in and is opened for a person; the URL that the browser comes back to comes out."""

from __future__ import annotations

import asyncio
import re
import socket
import webbrowser
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from ..errors import NotAuthorized

_REQUEST: Final = re.compile(rb"GET (/callback\?[\x21-\x7e]{1,8000}) HTTP/1\.[01]\r\n")
_PAGE: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\ncache-control: no-store\r\n"
    b"referrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'\r\nconnection: close\r\n\r\n"
    b"<!doctype html><title>Done</title><p>You may close this window."
)
_ELSE: Final = b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Browser:
    """A person's browser, which comes back to a port of this machine: give `browser` as `visit` and `browser.redirect`
    as `redirect` to AuthorizationCode. `patience`: seconds the person has."""

    def __init__(
        self, port: int = 0, patience: float = 300.0, open_url: Callable[[str], object] = webbrowser.open
    ) -> None:
        self._socket = socket.create_server(("127.0.0.1", port))
        self._patience = patience
        self._open = open_url
        self.redirect = f"http://127.0.0.1:{self._socket.getsockname()[1]}/callback"

    async def __call__(self, url: str) -> str:
        """Open the URL and wait for the answer. Raises NotAuthorized where none comes in time."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def come_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                line = await reader.readline()
                found = _REQUEST.fullmatch(line)
                writer.write(_PAGE if found else _ELSE)
                await writer.drain()
                if found and not answer.done():
                    answer.set_result(f"{self.redirect}?{urlsplit(found[1].decode()).query}")
            except (ValueError, OSError):
                pass
            finally:
                writer.close()

        async with await asyncio.start_server(come_back, sock=self._socket.dup()):
            await asyncio.to_thread(self._open, url)
            try:
                async with asyncio.timeout(self._patience):
                    return await answer
            except TimeoutError:
                raise NotAuthorized(f"nobody agreed within {self._patience:g} seconds") from None

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()
