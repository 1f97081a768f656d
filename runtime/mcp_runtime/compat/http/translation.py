"""The keywords of servers of the official SDK, with the values that this package takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .stored_events import to_event_store


def translated(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords of a server, of `run` and of HTTP applications as `App` takes them; None is the default."""
    settings = {name: value for name, value in keywords.items() if value is not None}
    if (store := settings.get("event_store")) is not None:
        settings["event_store"] = to_event_store(store)
    if (security := settings.pop("request_state_security", None)) is not None:
        settings["keys"] = security.key_ring()
    if (security := settings.pop("transport_security", None)) is not None:
        settings |= security.keywords()
    return settings
