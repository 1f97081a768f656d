"""The URL of an authorization goes in and is opened for a person; the URL that the browser comes back to comes out."""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import socket
import webbrowser
from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs, urlsplit

from ...errors import AuthorizationError

_REQUEST: Final = re.compile(rb"GET (/callback\?[\x21-\x7e]{1,8000}) HTTP/1\.[01]\r\n")
_HEAD: Final = (
    "HTTP/1.1 {}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n"
    "referrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'; frame-ancestors 'none'\r\n"
    "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
)
# Nothing of what was asked stands in a page.
_SUCCESS_PAGE: Final = ("200 OK", "<!doctype html><title>Done</title><p>You may close this window.")
_WRONG_STATE_PAGE: Final = (
    "400 Bad Request",
    "<!doctype html><title>No login</title><p>This belongs to no login under way.",
)
_NOT_FOUND_PAGE: Final = ("404 Not Found", "")


class LoopbackBrowser:
    """A person's browser, which comes back to a port of this machine: give `browser` as `visit` and `browser.redirect`
    as `redirect` to AuthorizationCode. The port is open while somebody is awaited; what comes
    without the state of the request changes nothing."""

    def __init__(self, port: int = 0, open_url: Callable[[str], object] = webbrowser.open) -> None:
        self._socket: socket.socket | None = _bind(port)
        self._port: int = self._socket.getsockname()[1]
        self._open = open_url
        self.redirect = f"http://127.0.0.1:{self._port}/callback"

    async def __call__(self, url: str) -> str:
        """Open the URL and wait for the answer, as long as the caller does."""
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        state = _state(urlsplit(url).query)
        there: set[asyncio.StreamWriter] = set()

        async def come_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there.add(writer)
            try:
                found = _REQUEST.fullmatch(await reader.readline())
                query = urlsplit(found[1].decode()).query if found else ""
                ours = hmac.compare_digest(_state(query).encode(), state.encode())
                status, page = _NOT_FOUND_PAGE if found is None else _SUCCESS_PAGE if ours else _WRONG_STATE_PAGE
                writer.write(f"{_HEAD.format(status, len(page))}{page}".encode())
                await writer.drain()
                if found and ours and not answer.done():
                    answer.set_result(f"{self.redirect}?{query}")
            except (ValueError, OSError):
                pass
            finally:
                writer.close()
                there.discard(writer)

        listening, self._socket = self._socket or _bind(self._port), None
        async with await asyncio.start_server(come_back, sock=listening):
            try:
                await asyncio.to_thread(self._open, url)
                return await answer
            finally:
                for writer in there:  # Browsers open connections that they do not use.
                    writer.transport.abort()

    def close(self) -> None:
        """Give the port back, if nobody was ever awaited there."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _bind(port: int) -> socket.socket:
    """A socket that has the port and does not listen yet. Raises AuthorizationError where another program has it."""
    found = socket.socket()
    try:
        if os.name == "posix":
            # The system remembers connections for a while; with this, they do not keep the next login from its port.
            # Elsewhere this option means something else.
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("127.0.0.1", port))
    except OSError as fault:
        found.close()
        raise AuthorizationError(
            f"port {port} of this machine cannot be used for the way back: {fault.strerror}"
        ) from None
    return found


def _state(query: str) -> str:
    try:
        return parse_qs(query, max_num_fields=50).get("state", [""])[0]
    except ValueError:
        return ""
