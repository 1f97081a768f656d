"""A request of a browser goes in; who sits at it comes out: the hook by which a site's own sign-in is used."""

from __future__ import annotations

from typing import Protocol

from .http import HTTPRequest


class Login(Protocol):
    """The sign-in of a site."""

    async def current_user(self, request: HTTPRequest) -> str | None:
        """Who the browser belongs to, by the name that grants are kept under; None where nobody has signed in."""
        ...

    def login_url(self, return_to: str) -> str:
        """Where the browser goes to sign in. `back`: the path of this server to which it comes back afterwards."""
        ...
