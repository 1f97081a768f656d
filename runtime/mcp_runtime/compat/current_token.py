"""`get_access_token` of the official SDK: the token of the request that the running function serves."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

from ..session.identity import AuthenticatedUser
from .auth.oauth_models import OfficialAccessToken
from .auth.token_verification import access_token_of
from .request import CURRENT

_USER: Final[ContextVar[AuthenticatedUser | None]] = ContextVar("mcp_user", default=None)


async def with_user(name: str, ctx: Any, params: Any, call_next: Any) -> Any:
    """Serve a request whose user `get_access_token` returns: a middleware of an app."""
    token = _USER.set(ctx.user)
    try:
        return await call_next(ctx, params)
    finally:
        _USER.reset(token)


def get_access_token() -> OfficialAccessToken | None:
    """Return the access token of the request that the running function serves; None without one."""
    ctx = CURRENT.get(None)
    return access_token_of(_USER.get() if ctx is None else ctx.user)
