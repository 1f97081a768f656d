"""Requests and notifications: the methods that generated clients and contexts send messages with."""

# pyright: reportPrivateUsage=false
# The two functions that send what a class has no method for stand beside it.
from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from ..errors import ConnectionClosedError, RemoteError
from ..protocol.models import is_model, is_object
from ..protocol.result_types import FollowedPages
from ..protocol.revision import InputRequest, Notification, Request
from ..session.instruments import OPENTELEMETRY, instruments
from ..session.interfaces import Channel
from ..session.requests import DEFAULT_OPTIONS, Params, RequestKeywords, RequestOptions, with_timeout_of
from ..usage.keywords import NoKeywords, keywords_of, refuse_missing, refuse_unknown

if TYPE_CHECKING:
    from pydantic import BaseModel

ResultT = TypeVar("ResultT", bound="BaseModel")

_OPTION_NAMES: Final = keywords_of(RequestKeywords)


class Requester:
    """The base of everything that sends messages: clients, servers and contexts."""

    _request_meta: Mapping[str, Any] = {}
    _options: RequestOptions = DEFAULT_OPTIONS  # Those of requests without options; a client has its own timeout.

    async def _send_request(
        self,
        row: Request[ResultT] | InputRequest[ResultT],
        params: Params,
        options: RequestOptions | None,
        keywords: RequestKeywords | None = None,
    ) -> ResultT:
        """Send a request and return its result. Keywords override options. Raises MCPError."""
        options = options or DEFAULT_OPTIONS
        if keywords:
            options = self._with_keywords(row.name.removeprefix("on_"), options, keywords)
        try:
            channel = self._require_channel()
            if OPENTELEMETRY in sys.modules and isinstance(row, Request):
                send = partial(self._send_over, channel, row, params, options)
                result = await instruments().around_request(row, params, channel, send)()
            else:
                built = self._build_params(row, params, options)
                result = await channel.send_request(cast("Request[Any]", row), built, options)
        except Exception:
            refuse_missing(row.name.removeprefix("on_"), params)
            raise
        return cast("ResultT", result)

    def _send_over(
        self, channel: Channel, row: Request[Any], params: Params, options: RequestOptions
    ) -> Awaitable[BaseModel]:
        return channel.send_request(row, self._build_params(row, params, options), options)

    def _with_keywords(self, method: str, options: RequestOptions | None, keywords: RequestKeywords) -> RequestOptions:
        """Return options with other values. Raises TypeError for a keyword that the method does not have."""
        if not keywords.keys() <= _OPTION_NAMES:
            self._refuse_keywords(method, keywords, _OPTION_NAMES)
        return replace(with_timeout_of(options, self._options), **keywords)

    def _refuse_keywords(
        self, method: str, keywords: Mapping[str, object], others: frozenset[str] = frozenset()
    ) -> None:
        """Raise TypeError for the first keyword that is neither a parameter of the method nor one of the others."""
        function = getattr(type(self), method, None)
        own: list[str] = [] if function is None else [*inspect.signature(function).parameters]
        refuse_unknown(method, keywords, {*own, *others} - {"self", "params", "keywords"})

    async def _send_request_for(
        self,
        interim: type[ResultT],
        row: Request[Any],
        params: Params,
        options: RequestOptions | None,
        keywords: RequestKeywords | None = None,
    ) -> ResultT:
        """Send a request whose params require an interim result, and return that. Raises RemoteError for another
        result."""
        method = f"{row.name.removeprefix('on_')}_as_task"
        if keywords and not keywords.keys() <= _OPTION_NAMES:
            self._refuse_keywords(method, keywords, _OPTION_NAMES)
        refuse_missing(method, params)
        result = await self._send_request(row, params, options, keywords)
        if not isinstance(result, interim):
            raise RemoteError(f"{row.method!r}: the result is not an {interim.__name__}, which the params require")
        return result

    async def _send_notification(
        self, row: Notification, params: Params, options: RequestOptions | None, keywords: NoKeywords | None = None
    ) -> None:
        """Send a notification. Raises MCPError, and TypeError for unknown keywords."""
        if keywords:
            self._refuse_keywords(f"notify_{row.name.removeprefix('on_')}", keywords)
        try:
            await self._require_channel().send_notification(
                row, self._build_params(row, params, options or DEFAULT_OPTIONS)
            )
        except Exception:
            refuse_missing(f"notify_{row.name.removeprefix('on_')}", params)
            raise

    def _paginate(
        self,
        row: Request[Any],
        params: dict[str, Any],
        items: str,
        options: RequestOptions | None,
        keywords: RequestKeywords | None = None,
    ) -> AsyncIterator[Any]:
        """Return an iterator over all items of a list. Raises TypeError for a keyword that the method does not have."""
        if keywords:
            options = self._with_keywords(f"iter_{row.name.removeprefix('on_').partition('_')[2]}", options, keywords)
        return self._pages(row, params, items, options)

    async def _pages(
        self, row: Request[Any], params: dict[str, Any], items: str, options: RequestOptions | None
    ) -> AsyncIterator[Any]:
        """Yield all items of a list, page by page. Raises RemoteError for a list that does not end."""
        limits = options or self._options
        remedy = "; max_pages= and max_items= of the call are the limits"
        followed = FollowedPages(row.method, limits.max_pages, limits.max_items, remedy)
        cursor: str | None = None
        while True:
            page: Any = await self._send_request(row, {**params, "cursor": cursor}, options)
            listed = getattr(page, items)
            if followed.is_again(listed, page.next_cursor):
                return
            for item in listed:
                yield item
            if (cursor := followed.add(len(listed), page.next_cursor)) is None:
                return

    def _require_channel(self) -> Channel:
        """Return the channel of the connection. Raises ConnectionClosedError if there is no connection."""
        raise ConnectionClosedError("there is no connection; use `async with`")

    def _build_params(
        self, row: Request[Any] | InputRequest[Any] | Notification, params: Params, options: RequestOptions
    ) -> Any:
        """Return the params with the metadata of the request, without optional properties that are None."""
        own = self._request_meta
        if OPENTELEMETRY in sys.modules and isinstance(row, Request):
            # Input requests are matched by their params: no trace ids there.
            own = {**instruments().trace_meta(), **own}
        if not is_object(params) and is_model(params):
            if not (options.meta or own):
                return params
            params = params.model_dump()
        required = _required_params(row.params)
        fields = {name: value for name, value in params.items() if value is not None or name in required}
        if not (options.meta or own):
            return fields
        meta = {**own, **options.meta} if isinstance(row, Request) else options.meta
        if meta:
            explicit = fields.get("_meta")
            fields["_meta"] = {**meta, **(explicit if is_object(explicit) else {})}
        return fields


async def send_request(sender: Requester, row: Any, params: Params, options: RequestOptions | None = None) -> Any:
    """Send a request of any row from a client or a context, as its generated methods do. Raises MCPError."""
    return await sender._send_request(row, params, options)


async def send_notification(sender: Requester, row: Notification, params: Params) -> None:
    """Send a notification of any row from a client or a context, as its generated methods do. Raises MCPError."""
    await sender._send_notification(row, params, None)


@cache
def wire_names(params_type: Any) -> frozenset[str]:
    """Return the wire names of the properties of a params type."""
    return frozenset(field.alias or name for name, field in params_type.__pydantic_fields__.items())


@cache
def _required_params(params_type: Any) -> frozenset[str]:
    """Return the wire names of the required properties of a params type."""
    fields = getattr(params_type, "__pydantic_fields__", {})
    return frozenset(field.alias or name for name, field in fields.items() if field.is_required())
