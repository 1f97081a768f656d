"""A request of a browser goes in; who sits at it comes out: the hook by which a site's own sign-in is used."""

from __future__ import annotations

from typing import Protocol

from .web import Incoming


class Login(Protocol):
    """The sign-in of a site."""

    async def who(self, request: Incoming) -> str | None:
        """Who the browser belongs to, by the name that grants are kept under; None where nobody has signed in."""
        ...

    def page(self, back: str) -> str:
        """Where the browser goes to sign in. `back`: the path of this server to which it comes back afterwards."""
        ...
