"""A browser login with a loopback redirect (https://www.rfc-editor.org/rfc/rfc8252#section-7.3)."""

from __future__ import annotations

import asyncio
import hmac
import inspect
import os
import re
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from mcp_runtime.errors import AuthorizationError
from mcp_runtime.http.urls import base_url
from mcp_runtime.usage.keywords import checked
from mcp_runtime.usage.rules import FUNCTION, PORT

from .grants import AuthorizationCode
from .provider import OAuthClientProvider
from .storage import FileTokenStorage, held

_REQUEST: Final = re.compile(rb"GET (/callback(?:/[0-9a-f]{1,64})?)\?([\x21-\x7e]{1,8000}) HTTP/1\.[01]\r\n")
_HEAD: Final = (
    "HTTP/1.1 {}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n"
    "referrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'; frame-ancestors 'none'\r\n"
    "x-content-type-options: nosniff\r\nconnection: close\r\n\r\n"
)
# The pages are constant: they repeat nothing of the request.
_SUCCESS_PAGE: Final = ("200 OK", "<!doctype html><title>Done</title><p>You may close this window.")
_WRONG_STATE_PAGE: Final = (
    "400 Bad Request",
    "<!doctype html><title>No login</title><p>This page belongs to no login in progress.",
)
_NOT_FOUND_PAGE: Final = ("404 Not Found", "")


class LoopbackBrowser:
    """The user's browser, redirected back to a port of this machine.

    Pass the object as `redirect_handler` and its `redirect_uri` as `redirect_uri` to `AuthorizationCode`. The port
    accepts connections only while a login is in progress, and ignores requests without the `state` of that login.

    The redirect URI may have one more segment in its path, which is another one for each authorization server.

    Clients of several servers may share it: one login begins when that of another server has ended.
    """

    accepts_segment = True

    @checked(rules={"port": PORT, "open_url": FUNCTION})
    def __init__(self, port: int = 0, open_url: Callable[[str], object] = webbrowser.open) -> None:
        """Bind the port. Raises AuthorizationError if another program uses it.

        Args:
            port: Port on 127.0.0.1. Default 0: any free port.
            open_url: Opens a URL in the browser, or returns False if it cannot. Default: `webbrowser.open`.
        """
        self._socket: socket.socket | None = _bind(port)
        self._port: int = self._socket.getsockname()[1]
        self._open = open_url
        self._login = threading.Lock()
        self.redirect_uri = f"http://127.0.0.1:{self._port}/callback"

    async def __call__(self, url: str) -> str:
        """Open the authorization URL and return the URL of the redirect. Wait until the caller cancels the call.

        Raises AuthorizationError if no browser can be opened.
        """
        async with held(self._login):
            return await self._log_in(url)

    async def _log_in(self, url: str) -> str:
        response: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        state = _state(urlsplit(url).query)
        connections: set[asyncio.StreamWriter] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.add(writer)
            try:
                match = _REQUEST.fullmatch(await reader.readline())
                path, query = (match[1].decode(), match[2].decode()) if match else ("", "")
                has_state = hmac.compare_digest(_state(query).encode(), state.encode())
                status, page = _NOT_FOUND_PAGE if match is None else _SUCCESS_PAGE if has_state else _WRONG_STATE_PAGE
                writer.write(f"{_HEAD.format(status, len(page))}{page}".encode())
                await writer.drain()
                if match and has_state and not response.done():
                    response.set_result(f"{base_url(self.redirect_uri)}{path}?{query}")
            except (ValueError, OSError):
                pass
            finally:
                writer.close()
                connections.discard(writer)

        listener = self._socket or _bind(self._port)
        self._socket = None
        async with await asyncio.start_server(serve, sock=listener):
            try:
                await self._open_in_browser(url)
                return await response
            finally:
                for writer in connections:  # Browsers open connections that they do not use.
                    writer.transport.abort()

    async def _open_in_browser(self, url: str) -> None:
        opened = await asyncio.to_thread(self._open, url)
        if inspect.isawaitable(opened):
            opened = await opened
        if opened is False:  # As `webbrowser.open` says it. Nobody could log in, and the URL stands nowhere.
            raise AuthorizationError(
                "no browser can be opened on this machine to log in: set the variable BROWSER, or write"
                " LoopbackBrowser(open_url=…) with a function that shows the user the URL, such as print"
            )

    def close(self) -> None:
        """Release the port, if no login has used it."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def login_in_browser(
    server: str, browser: LoopbackBrowser, name: str, tokens: str | Path | None
) -> OAuthClientProvider:
    """Return the authorization of a program whose user logs in at a server.

    Args:
        server: The URL of the server.
        browser: The browser to log in with.
        name: The name of the program, which the user sees.
        tokens: The file of its tokens; None stores them in memory.
    """
    grant = AuthorizationCode(browser, browser.redirect_uri, client_name=name)
    return OAuthClientProvider(server, grant, storage=FileTokenStorage(tokens) if tokens else None)


def _bind(port: int) -> socket.socket:
    """Return a socket that is bound to the port and does not listen yet. Raises AuthorizationError."""
    bound = socket.socket()
    try:
        if os.name == "posix":
            # Without this, connections of the last login that are in TIME_WAIT block the port. Windows gives the option
            # another meaning.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", port))
    except OSError as error:
        bound.close()
        raise AuthorizationError(
            f"port {port} of this machine cannot be used for the redirect: {error.strerror}"
        ) from None
    return bound


def _state(query: str) -> str:
    try:
        return parse_qs(query, max_num_fields=50).get("state", [""])[0]
    except ValueError:
        return ""
