"""Dependencies that give a function something of its request: the context, the HTTP request, the access token."""

from __future__ import annotations

from typing import Any

from ...errors import ToolError
from ...server.context import ServerContext
from .markers import Depends


def CurrentContext() -> Any:
    """Inject the context of the request; a parameter with the annotation `Context` gets it as well."""
    return Depends(_context)


def CurrentFastMCP() -> Any:
    """Inject the app that serves the request; the same as `ctx.app`."""
    return Depends(_app)


def CurrentRequest() -> Any:
    """Inject the HTTP request with its headers; the call fails over stdio, which has none."""
    return Depends(_request)


def CurrentHeaders() -> Any:
    """Inject the headers of the HTTP request; an empty dict over stdio."""
    return Depends(_headers)


def CurrentAccessToken() -> Any:
    """Inject the user of the access token, an AuthenticatedUser; the call fails without authentication."""
    return Depends(_user)


def TokenClaim(name: str) -> Any:
    """Inject a claim of the access token; the call fails without authentication, or if the token lacks the claim.

    Args:
        name: The name of the claim, such as "sub".
    """
    return Depends(_claim, name=name)


async def _context(ctx: ServerContext) -> ServerContext:
    return ctx


async def _app(ctx: ServerContext) -> Any:
    return getattr(ctx, "app", None)


async def _request(ctx: ServerContext) -> Any:
    request = getattr(ctx, "request", None)
    if request is None:
        raise ToolError("this call has no HTTP request: the server is not used over HTTP")
    return request


async def _headers(ctx: ServerContext) -> Any:
    return getattr(ctx, "headers", None) or {}


async def _user(ctx: ServerContext) -> Any:
    if ctx.user is None:
        raise ToolError("this call has no access token: the server is used without authentication")
    return ctx.user


async def _claim(ctx: ServerContext, name: str) -> Any:
    claims = (await _user(ctx)).claims
    if name not in claims:
        raise ToolError(f"the access token has no claim {name!r}")
    return claims[name]
