"""The `_meta` of a received message's params."""

from __future__ import annotations

from typing import Any

from .events import NotificationReceived, RequestReceived
from .models import is_object, plain_of


def request_meta(message: RequestReceived | NotificationReceived) -> dict[str, Any]:
    """Return the `_meta` of the params as it was received; an empty object if there is none."""
    params = message.params
    meta: object = getattr(params, "meta", None)
    if hasattr(type(meta), "model_dump"):  # Not `is_model`, because this runs for most messages.
        return plain_of(meta)
    # If the schema does not define `_meta` for the params of this method, it is an extra property of the model.
    extra: object = getattr(params, "model_extra", None)
    unnamed: object = extra.get("_meta") if is_object(extra) else None
    return meta if is_object(meta) else unnamed if is_object(unnamed) else {}
