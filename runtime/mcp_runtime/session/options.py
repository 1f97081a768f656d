"""The options of one request: timeout, progress callback, metadata."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from ..usage.keywords import checked_fields
from ..usage.rules import COUNT, FLAG, MAPPING, Rule, is_number

if TYPE_CHECKING:
    from pydantic import BaseModel

Params: TypeAlias = "BaseModel | Mapping[str, object]"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a request: `progress` grows, up to `total` if the peer knows it; `message` is for humans."""

    progress: float
    total: float | None = None
    message: str | None = None


OnProgress: TypeAlias = Callable[[Progress], None] | Callable[[Progress], Awaitable[None]]


class _UnsetTimeout(float):
    """The timeout of options that set none: that of the client, or else its own value."""


_UNSET: Final = _UnsetTimeout(60.0)
_LIMIT: Final = Rule(lambda value: is_number(value) and value > 0, "a number of seconds above 0").or_none()


@checked_fields(
    rules={
        "timeout": _LIMIT,
        "max_timeout": _LIMIT,
        "on_progress": Rule(callable, "a function of a Progress").or_none(),
        "meta": Rule(MAPPING.accepts, "a dict"),
        "bypass_cache": FLAG,
        "max_pages": COUNT,
        "max_items": COUNT,
    }
)
@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The options of one request.

    Args:
        timeout: Seconds to wait for the result; None waits without limit. Default: that of the client, which is 60
            unless it has another one.
        max_timeout: With this, progress restarts the timeout, but the request fails after this many seconds in any
            case. Default None: progress does not extend the timeout.
        on_progress: A function that is called with each `Progress` that the peer reports. Those of an `async def` run
            one after another, and end before the request does. Default None.
        meta: Keys to send in the `_meta` of the params. Default: none.
        bypass_cache: Send the request although a cached result is still fresh. Default False.
        max_pages: The pages of a list that an iterator such as `iter_tools` reads; more are an error. Default 1000.
        max_items: The items that it reads; more are an error. Default 100,000.
    """

    timeout: float | None = _UNSET
    max_timeout: float | None = None
    on_progress: OnProgress | None = None
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    bypass_cache: bool = False
    max_pages: int = 1000
    max_items: int = 100_000


def with_timeout_of(options: RequestOptions | None, defaults: RequestOptions) -> RequestOptions:
    """Return options with the timeout of other ones, unless they have their own; the other ones instead of None."""
    if options is None:
        return defaults
    return replace(options, timeout=defaults.timeout) if options.timeout is _UNSET else options


class RequestKeywords(TypedDict, total=False):
    """The options of one request as keywords: `client.call_tool("add", {"a": 1}, timeout=5)`."""

    timeout: float | None
    max_timeout: float | None
    on_progress: OnProgress | None
    meta: Mapping[str, Any]
    bypass_cache: bool
    max_pages: int
    max_items: int


DEFAULT_OPTIONS: Final = RequestOptions()
