"""Sending: what a generated method gives goes in, a message of its row goes out, and its answer comes back typed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from ..errors import ConnectionClosedError, RemoteError
from ..protocol.models import is_object
from ..protocol.revision import InputRequest, Notification, Request
from ..session.interfaces import Channel
from ..session.options import DEFAULT_OPTIONS, Params, RequestOptions
from ..session.tracing import is_tracing, trace_meta

ResultT = TypeVar("ResultT", bound=BaseModel)


class Requester:
    """Something that sends what its revision lets its side send."""

    _request_meta: Mapping[str, Any] = {}

    async def _send_request(
        self, row: Request[ResultT] | InputRequest[ResultT], params: Params, options: RequestOptions | None
    ) -> ResultT:
        chosen = options or DEFAULT_OPTIONS
        session = self._require_channel()
        given = self._build_params(row, params, chosen)
        answer = await session.send_request(cast("Request[Any]", row), given, chosen)
        return cast("ResultT", answer)

    async def _send_request_for(
        self, interim: type[ResultT], row: Request[Any], params: Params, options: RequestOptions | None
    ) -> ResultT:
        """Ask with params that ask for an interim result. Raises RemoteError where the answer comes without it."""
        answer = await self._send_request(row, params, options)
        if not isinstance(answer, interim):
            raise RemoteError(f"{row.method!r}: answered at once, without the {interim.__name__} that was asked for")
        return answer

    async def _send_notification(self, row: Notification, params: Params, options: RequestOptions | None) -> None:
        await self._require_channel().send_notification(
            row, self._build_params(row, params, options or DEFAULT_OPTIONS)
        )

    async def _paginate(
        self, row: Request[Any], params: dict[str, Any], items: str, options: RequestOptions | None
    ) -> AsyncIterator[Any]:
        """Every item of a list, page after page, until there is no further cursor."""
        cursor: str | None = None
        while True:
            page: Any = await self._send_request(row, {**params, "cursor": cursor}, options)
            for item in getattr(page, items):
                yield item
            if page.next_cursor is None:
                return
            if page.next_cursor == cursor:
                raise RemoteError(f"{row.method!r}: the cursor {cursor!r} leads to itself")
            cursor = page.next_cursor

    def _require_channel(self) -> Channel:
        """The conversation, or ConnectionClosedError."""
        raise ConnectionClosedError("there is no connection; use `async with`")

    def _build_params(
        self, row: Request[Any] | InputRequest[Any] | Notification, params: Params, options: RequestOptions
    ) -> Any:
        """The params to send: a property that is None was not given, unless the schema requires it."""
        own = self._request_meta
        if is_tracing() and isinstance(row, Request):  # Questions inside results are known again by what they say.
            own = {**trace_meta(), **own}
        if isinstance(params, BaseModel):
            if not (options.meta or own):
                return params
            params = params.model_dump()
        required = _required_params(row.params)
        given = {wire: value for wire, value in params.items() if value is not None or wire in required}
        if not (options.meta or own):
            return given
        meta = {**own, **options.meta} if isinstance(row, Request) else options.meta
        if meta:
            before = given.get("_meta")
            given["_meta"] = {**meta, **(before if is_object(before) else {})}
        return given


@cache
def _required_params(shape: Any) -> frozenset[str]:
    """The wire names of the properties that a params type requires."""
    fields = getattr(shape, "model_fields", {})
    return frozenset(field.alias or name for name, field in fields.items() if field.is_required())
