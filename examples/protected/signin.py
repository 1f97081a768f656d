"""A login with name and password: a page at /signin and a cookie. Logins last as long as the process.

A real site uses its own login instead. It only needs the two methods of `mcp_generated.auth.Login`.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from hashlib import scrypt
from html import escape
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

from mcp_generated.auth import HTTPRequest

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE: Final = "notes-session"
_MAX_BODY: Final = 8 * 1024  # Bytes of a form.
_BODY_SECONDS: Final = 15.0
_HEADERS: Final = (
    ("content-type", "text/html; charset=utf-8"),
    ("cache-control", "no-store"),
    ("content-security-policy", "default-src 'none'; form-action 'self'; frame-ancestors 'none'"),
    ("x-content-type-options", "nosniff"),
)


class SignIn:
    """A login page and its cookie. `passwords` maps user names to passwords."""

    def __init__(self, origin: str, passwords: dict[str, str]) -> None:
        self._origin = origin
        self._salt = secrets.token_bytes(16)
        self._digests = {name: self._digest(password) for name, password in passwords.items()}
        self._sessions: dict[str, str] = {}

    async def current_user(self, request: HTTPRequest) -> str | None:
        """Return the user of the browser, or None if nobody is logged in."""
        return self._sessions.get(request.cookie(COOKIE) or "")

    def login_url(self, return_to: str) -> str:
        """Return the URL of the login page."""
        return f"/signin?{urlencode({'return_to': return_to})}"

    def wrap(self, application: ASGIApp) -> ASGIApp:
        """Return an application that serves the login page, and forwards all other paths."""

        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["path"] == "/signin":
                await self._respond(scope, receive, send)
            else:
                await application(scope, receive, send)

        return wrapped

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            return await _send_form(send)
        origin = dict(scope["headers"]).get(b"origin", self._origin.encode())
        if origin != self._origin.encode():
            return await _send_form(send, "This did not come from the page of this server", 403)
        try:
            body = await asyncio.wait_for(_read_body(receive), _BODY_SECONDS)
            form = {name: values[0] for name, values in parse_qs(body.decode(), max_num_fields=10).items()}
            query = parse_qs(scope["query_string"].decode(), max_num_fields=10)
        except (ValueError, TimeoutError):
            return await _send_form(send, "The form cannot be read", 400)
        name, password = form.get("name", ""), form.get("password", "")
        digest = await asyncio.to_thread(self._digest, password)
        # An unknown name takes the same time, so that the time does not reveal the user names.
        if not hmac.compare_digest(digest, self._digests.get(name, b"")):
            return await _send_form(send, "The name or the password is wrong", 403)
        session = secrets.token_urlsafe(32)
        self._sessions[session] = name
        secure = "; Secure" if self._origin.startswith("https:") else ""
        # Only to the authorization endpoint of this server: a link in a mail could name any other site.
        return_to = query.get("return_to", [""])[0]
        location = return_to if return_to.startswith("/authorize?") else "/signin"
        cookie = f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Lax{secure}"
        await _send(send, 303, b"", ("location", location), ("set-cookie", cookie))

    def _digest(self, password: str) -> bytes:
        digest: bytes = scrypt(password.encode(), salt=self._salt, n=2**14, r=8, p=1)
        return digest


async def _read_body(receive: Receive) -> bytes:
    """Return the body of a request. Raises ValueError if it is too long or the client disconnects."""
    body = bytearray()
    while True:
        event = await receive()
        body += event.get("body", b"")
        if event["type"] == "http.disconnect" or len(body) > _MAX_BODY:
            raise ValueError("the body is incomplete or too long")
        if not event.get("more_body"):
            return bytes(body)


async def _send_form(send: Send, problem: str = "", status: int = 200) -> None:
    page = (
        f"<!doctype html><title>Sign in</title><h1>Sign in</h1>{f'<p>{escape(problem)}.</p>' if problem else ''}"
        '<form method="post"><p><label>Name <input name="name" autocomplete="username" autofocus></label></p>'
        '<p><label>Password <input name="password" type="password" autocomplete="current-password"></label></p>'
        '<button id="signin">Sign in</button></form>'
    )
    await _send(send, status, page.encode(), *_HEADERS)


async def _send(send: Send, status: int, body: bytes, *headers: tuple[str, str]) -> None:
    fields = [
        (name.encode(), value.encode("latin-1")) for name, value in (*headers, ("content-length", str(len(body))))
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
