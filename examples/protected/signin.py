"""Who signs in with a name and a password, and stays so while the process lasts: the hook a site puts its own in place of."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from hashlib import scrypt
from html import escape
from urllib.parse import urlencode

from mcp_runtime.auth.authorization_server.pages import page
from mcp_runtime.auth.authorization_server.models import OAuthError
from mcp_runtime.auth.authorization_server.app import ASGIApp
from mcp_runtime.auth.authorization_server.http import HTTPRequest, HTTPResponse, read_request
from mcp_runtime.http.body import BodyReader
from mcp_runtime.http.asgi import Receive, Scope, Send

COOKIE = "notes-session"


class SignIn:
    """A page at /signin, and the cookie it gives. `passwords`: by the names of people."""

    def __init__(self, origin: str, passwords: dict[str, str]) -> None:
        self._origin = origin
        self._salt = secrets.token_bytes(16)
        self._digests = {name: self._digest(password) for name, password in passwords.items()}
        self._sessions: dict[str, str] = {}
        self._arrivals = BodyReader(8 * 1024, 15.0)

    async def current_user(self, request: HTTPRequest) -> str | None:
        """Who the browser belongs to."""
        return self._sessions.get(request.cookie(COOKIE) or "")

    def login_url(self, return_to: str) -> str:
        """Where the browser goes to sign in."""
        return f"/signin?{urlencode({'back': return_to})}"

    def before(self, app: App) -> App:
        """The page, and for all other paths another application."""

        async def both(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] != "/signin":
                return await app(scope, receive, send)
            request = await read_request(scope, receive, self._arrivals)
            reply = request if isinstance(request, HTTPResponse) else await self._reply(request)
            await reply.send(send)

        return both

    async def _reply(self, request: HTTPRequest) -> HTTPResponse:
        if request.method == "GET":
            return _form()
        try:
            form, back = request.form(), request.parameters().get("back", "")
        except OAuthError as fault:
            return _form(fault.reason, 400)
        if request.headers.get("origin", self._origin) != self._origin:
            return _form("This did not come from the page of this server", 403)
        name, password = form.get("name", ""), form.get("password", "")
        found = await asyncio.to_thread(self._digest, password)
        # As long for a name that is not known: nobody learns which ones are.
        if not hmac.compare_digest(found, self._digests.get(name, b"")):
            return _form("The name or the password is another", 403)
        session = secrets.token_urlsafe(32)
        self._sessions[session] = name
        secure = "; Secure" if self._origin.startswith("https:") else ""
        # Only to this server's own page: a link in a mail could name any other.
        there = back if back.startswith("/authorize?") else "/signin"
        return HTTPResponse.redirect(there, ("set-cookie", f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Lax{secure}"))

    def _digest(self, password: str) -> bytes:
        return scrypt(password.encode(), salt=self._salt, n=2**14, r=8, p=1)


def _form(problem: str = "", status: int = 200) -> HTTPResponse:
    body = (
        f'<h1>Sign in</h1>{f"<p class=warning>{escape(problem)}.</p>" if problem else ""}<form method="post">'
        '<p><label>Name <input name="name" autocomplete="username" autofocus></label></p>'
        '<p><label>Password <input name="password" type="password" autocomplete="current-password"></label></p>'
        '<button id="signin">Sign in</button></form>'
    )
    return page("Sign in", body, status, forms="'self'")
