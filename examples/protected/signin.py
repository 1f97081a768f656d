"""A sign-in with name and password, valid while the process runs. A real site uses its own sign-in instead."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from hashlib import scrypt
from html import escape
from urllib.parse import urlencode

from mcp_runtime.auth import HTTPRequest, HTTPResponse, OAuthError
from mcp_runtime.auth.authorization_server.app import ASGIApp
from mcp_runtime.auth.authorization_server.http import read_request
from mcp_runtime.auth.authorization_server.pages import page
from mcp_runtime.http.asgi import Receive, Scope, Send
from mcp_runtime.http.body import BodyReader

COOKIE = "notes-session"


class SignIn:
    """A page at /signin that sets a session cookie. `passwords` are those of the users, by name."""

    def __init__(self, origin: str, passwords: dict[str, str]) -> None:
        self._origin = origin
        self._salt = secrets.token_bytes(16)
        self._digests = {name: self._digest(password) for name, password in passwords.items()}
        self._sessions: dict[str, str] = {}
        self._body_reader = BodyReader(8 * 1024, 15.0)

    async def current_user(self, request: HTTPRequest) -> str | None:
        """Return the user who is signed in at the browser."""
        return self._sessions.get(request.cookie(COOKIE) or "")

    def login_url(self, return_to: str) -> str:
        """Return the URL of the sign-in page."""
        return f"/signin?{urlencode({'return_to': return_to})}"

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Return an application that serves the page, and passes all other paths to another application."""

        async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http" or scope["path"] != "/signin":
                return await app(scope, receive, send)
            request = await read_request(scope, receive, self._body_reader)
            response = request if isinstance(request, HTTPResponse) else await self._respond(request)
            await response.send(send)

        return wrapped

    async def _respond(self, request: HTTPRequest) -> HTTPResponse:
        if request.method == "GET":
            return _form()
        try:
            form, return_to = request.form(), request.parameters().get("return_to", "")
        except OAuthError as error:
            return _form(error.reason, 400)
        if request.headers.get("origin", self._origin) != self._origin:
            return _form("The form was not sent from a page of this server", 403)
        name, password = form.get("name", ""), form.get("password", "")
        digest = await asyncio.to_thread(self._digest, password)
        # Unknown names take as long as known ones, so that the time does not reveal which names exist.
        if not hmac.compare_digest(digest, self._digests.get(name, b"")):
            return _form("The name or the password is wrong", 403)
        session = secrets.token_urlsafe(32)
        self._sessions[session] = name
        secure = "; Secure" if self._origin.startswith("https:") else ""
        # Redirect only to the authorization endpoint: a link from elsewhere could name any page.
        target = return_to if return_to.startswith("/authorize?") else "/signin"
        return HTTPResponse.redirect(
            target, ("set-cookie", f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Lax{secure}")
        )

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
