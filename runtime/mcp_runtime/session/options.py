"""How one request is made: timeout, progress callback, metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from .pending import OnProgress

Params: TypeAlias = BaseModel | Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """How one call is made.

    `timeout`: seconds to wait for the answer; None waits for ever. `max_timeout`: where it is given, progress starts
    the timeout again, but the call ends after this many seconds in any case. `on_progress` is called with each
    Progress. `meta` is sent as the `_meta` of the params. With `fresh`, the server is asked also where an answer is kept
    that still holds.
    """

    timeout: float | None = 60.0
    max_timeout: float | None = None
    on_progress: OnProgress | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    bypass_cache: bool = False


DEFAULT_OPTIONS: Final = RequestOptions()
