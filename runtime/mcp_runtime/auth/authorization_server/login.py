"""The login hook: by it an authorization server uses the sign-in of an existing site."""

from __future__ import annotations

from typing import Protocol

from .http import HTTPRequest


class Login(Protocol):
    """The sign-in of a site."""

    async def current_user(self, request: HTTPRequest) -> str | None:
        """Return a stable id of the user who is signed in at the browser; None if nobody is."""
        ...

    def login_url(self, return_to: str) -> str:
        """Return the URL of the sign-in page. After signing in it redirects the browser to `return_to`, a path with
        query at the authorization server."""
        ...
