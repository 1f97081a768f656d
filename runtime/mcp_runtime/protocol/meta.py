"""A message goes in, the metadata of its params comes out."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from .events import NotificationReceived, RequestReceived
from .models import is_object


def request_meta(message: RequestReceived | NotificationReceived) -> dict[str, Any]:
    """The `_meta` of the params, as it came; nothing where there is none."""
    params = message.params
    found: object = getattr(params, "meta", None)
    if isinstance(found, BaseModel):
        return found.model_dump()
    # Where the schema does not name it among the params of a method, it is one of their further properties.
    more: object = getattr(params, "model_extra", None)
    unnamed: object = more.get("_meta") if is_object(more) else None
    return found if is_object(found) else unnamed if is_object(unnamed) else {}
