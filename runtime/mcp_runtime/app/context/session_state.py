"""The state of a client's session: values that a function stores for later requests."""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from ...server.state_store import InMemoryStateStore, StateStore

_log: Final = logging.getLogger(__name__)


async def get_state(ctx: Any, key: str, default: Any) -> Any:
    """Return a value of the session; the same one in every run of a function that runs again."""
    values: dict[str, Any] = ctx.request_values or {}
    if key in values:
        return values[key]
    session = _session_key(ctx)
    if session is None:
        return default

    async def read() -> list[Any]:
        value = await _store(ctx).get(session, key)
        return [] if value is None else [from_json(value)]

    ctx.count_of_reads += 1
    stored = await ctx.once(f"#get_state {ctx.count_of_reads} {key}", read)
    return stored[0] if stored else default


async def set_state(ctx: Any, key: str, value: Any, serializable: bool) -> None:
    """Store a value of the session; a function that runs again stores it once."""
    _check_key(key)
    if not serializable:
        _request_values(ctx)[key] = value
        return
    try:
        encoded = to_json(value)
    except PydanticSerializationError:
        raise TypeError(
            f"set_state({key!r}): {type(value).__name__} is not JSON; serializable=False stores it for this request"
        ) from None
    session = _session_key(ctx)
    if session is None:
        _warn_without_session(ctx)
        _request_values(ctx)[key] = from_json(encoded)
        return
    if ctx.request_values is not None:
        ctx.request_values.pop(key, None)
    if not ctx.is_repeated("set_state"):
        await _store(ctx).set(session, key, encoded)


async def delete_state(ctx: Any, key: str) -> None:
    """Delete a value of the session; a function that runs again deletes it once."""
    if ctx.request_values is not None:
        ctx.request_values.pop(key, None)
    session = _session_key(ctx)
    if session is not None and not ctx.is_repeated("set_state"):
        await _store(ctx).delete(session, key)


def _session_key(ctx: Any) -> str | None:
    """Return the key of the session in the store: the session's id, or else the user; None if there is neither."""
    if (session_id := ctx.session_id) is not None:
        return f"session:{session_id}"
    auth = ctx._channel.auth
    owner = None if auth is None else auth.owner
    return None if owner is None else f"user:{sha256(repr(owner).encode()).hexdigest()}"


def _store(ctx: Any) -> StateStore:
    app = ctx.app
    if app.session_state_store is None and (shared := ctx.connection_state.origin._shared_store) is not None:
        from ...server.sharing.stored_states import StoredStates

        return StoredStates(shared, ctx.connection_state.origin.name)
    if app.session_state_store is None:
        app.session_state_store = InMemoryStateStore()
    store: StateStore = app.session_state_store
    return store


def _request_values(ctx: Any) -> dict[str, Any]:
    values: dict[str, Any] | None = ctx.request_values
    if values is None:
        values = ctx.request_values = {}
    return values


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"set_state() needs a str as the key, not {type(key).__name__}")


def _warn_without_session(ctx: Any) -> None:
    app = ctx.app
    if not getattr(app, "has_warned_of_state", False):
        app.has_warned_of_state = True
        _log.warning(
            "set_state: over HTTP, requests of %s have no session, and this client has no user: the values last for one"
            " request. Authenticate clients, or serve versions with sessions only (revisions=…)",
            ctx.protocol_version,
        )
