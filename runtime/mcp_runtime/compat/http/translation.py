"""The keywords of servers of the official SDK, with the values that this package takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from inspect import signature
from typing import Any, Final, cast

from ...app.app import BaseApp
from ...app.serving.server_settings import AppKeywords
from ...bindings.settings import HTTPServerSettings
from .stored_events import to_event_store

_OFFICIAL: Final = frozenset(
    "request_state_security transport_security host_origin_protection allowed_hosts allowed_origins".split()
    + "list_page_size strict_input_validation subscriptions".split()
)


@cache
def _optional() -> frozenset[str]:
    """Return the keywords whose value None is the default."""
    named = (
        *signature(cast(Any, BaseApp).__init__).parameters,
        *AppKeywords.__annotations__,
        *HTTPServerSettings.__annotations__,
    )
    return _OFFICIAL.union(named)


def translated(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords of a server, of `run` and of HTTP applications as `App` takes them; None is the default."""
    settings = {name: value for name, value in keywords.items() if value is not None or name not in _optional()}
    if (store := settings.get("event_store")) is not None:
        settings["event_store"] = to_event_store(store)
    if (security := settings.pop("request_state_security", None)) is not None:
        settings["keys"] = security.key_ring()
    if (security := settings.pop("transport_security", None)) is not None:
        settings |= security.keywords()
    return settings
