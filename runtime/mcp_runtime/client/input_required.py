"""Multi round-trip requests: answer the input requests of a result, and send the request again.

MCP specification, https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, cast

from pydantic import BaseModel

from .. import products
from ..aio.rates import SERVER_REQUESTS, RateLimit, TokenBucket
from ..endpoint.base import Endpoint
from ..endpoint.checks import Handler
from ..endpoint.context import ClientContext
from ..errors import JSONRPCError, LocalError, RemoteError
from ..protocol.connection import RequestReceived
from ..protocol.jsonrpc import INTERNAL_ERROR
from ..protocol.revision import InputRequest, Request, Revision
from ..session.requests import Params, RequestOptions
from ..session.session import ended, is_cancelled
from ..usage.keywords import nearest

MAX_ROUNDS: Final = 10

AnswerInputRequest = Callable[[Any], Awaitable[Any]]
IsAnswerable = Callable[[Any], bool]
DEFAULT_RATE_LIMITS: Final[Mapping[str, RateLimit]] = {
    "on_create_message": SERVER_REQUESTS,
    "on_elicit": SERVER_REQUESTS,
}


async def resolve_input_required(
    method: str,
    params: Mapping[str, Any],
    result: Any,
    *,
    is_answerable: IsAnswerable,
    answer: AnswerInputRequest,
    retry: Callable[[dict[str, Any]], Awaitable[Any]],
    max_rounds: int | None = MAX_ROUNDS,
) -> Any:
    """Return the first result that requires no input, or input that cannot be answered.

    Args:
        method: The method of the request, for error messages.
        params: The params of the request; `retry` gets them with `inputResponses` and `requestState`.
        result: The first result.
        is_answerable: A function that returns True for a result whose input requests can all be answered.
        answer: A function that returns the response to one input request.
        retry: A function that sends the request again with these params and returns its result.
        max_rounds: The maximum number of retries; None for no limit.

    Raises RemoteError if the server requires input after that many rounds.
    """
    rounds = 0
    while is_answerable(result):
        if rounds == max_rounds:
            raise RemoteError(f"{method!r}: the server requires input again after max_rounds={max_rounds} rounds")
        rounds += 1
        asked: Mapping[str, Any] = result.input_requests or {}
        responses = {key: await answer(item) for key, item in asked.items()}  # A user has one dialog at a time.
        result = await retry({**params, "inputResponses": responses or None, "requestState": result.request_state})
    return result


class InputAnswers(Endpoint):
    """The base of clients: it answers input requests with the handlers of the client."""

    _max_rounds: ClassVar[int] = MAX_ROUNDS  # How often a request is sent again with answers, until it fails.

    async def _resolve_input_required(
        self, row: Request[Any], params: Params, result: Any, options: RequestOptions | None
    ) -> Any:
        """Answer the input requests of a result with this client's handlers, and send the request again."""
        arguments = params.model_dump() if isinstance(params, BaseModel) else dict(params)
        if arguments.get("inputResponses") is not None or arguments.get("requestState") is not None:
            return result  # The caller handles the rounds itself.
        rows = self._input_handlers()

        def is_answerable(result: Any) -> bool:
            input_requests: dict[str, Any] = getattr(result, "input_requests", None) or {}
            return hasattr(result, "input_requests") and all(item.method in rows for item in input_requests.values())

        return await resolve_input_required(
            row.method,
            arguments,
            result,
            is_answerable=is_answerable,
            answer=lambda item: self._answer_input_request(rows[item.method], item.params),
            retry=partial(super()._send_request, row, options=options),
            max_rounds=self._max_rounds,
        )

    async def _wait_for_task(self, task: BaseModel, options: RequestOptions | None) -> Any:
        """Return the result of the request that was answered with this task."""
        polling = products.require("task_polling", "a result that is a task")
        requests = polling.TaskRequests(
            self.revision,
            self._send_request,
            self._input_handlers(),
            self._answer_input_request,
            self._require_channel().connection.read_result,
        )
        return await polling.result_of_task(requests, task, options)

    def _input_handlers(self) -> dict[str, InputRequest[Any]]:
        rows = (row for row in self.revision.rows if isinstance(row, InputRequest))
        return {row.method: row for row in rows if row.method in self._handlers}

    async def _answer_input_request(self, row: InputRequest[Any], params: Any) -> Any:
        """Return the response of a handler to an input request. Raises LocalError if it was cancelled by itself."""
        request = RequestReceived("", cast(Any, row), params)
        try:
            return await self._handlers[row.method](ClientContext(self._require_channel(), request, self), params)
        except asyncio.CancelledError as error:
            if is_cancelled(error):
                raise  # The task of the caller.
            raise LocalError(ended(row.method, error)) from error


# Rate limits of what a server requests of a client, and the order of its log messages.


def prepare_handlers(
    handlers: dict[str, Handler], revision: Revision, rate_limits: Mapping[str, RateLimit | None] | None, name: str
) -> None:
    """Wrap the handlers of a client: those with a rate limit, and that of log messages, which runs in order.

    Args:
        handlers: The handlers by method; wrapped in place.
        revision: The protocol version of the client.
        rate_limits: The rate limits by handler, such as "on_elicit", besides the default ones; None for no limit.
        name: The name of the client's class, for messages.

    Raises LocalError for a rate limit of something that is not a handler of a request.
    """
    rows = [row for row in revision.rows if row.name.startswith("on_") and isinstance(row, (Request, InputRequest))]
    names = sorted({row.name for row in rows} | {*DEFAULT_RATE_LIMITS})
    for handler in rate_limits or ():
        if handler not in names:
            raise LocalError(f"{name}(): there is no handler {handler!r}; {nearest(handler, names, 'handlers')}")
    rates = {**DEFAULT_RATE_LIMITS, **(rate_limits or {})}
    for row in rows:
        if (rate := rates.get(row.name)) is not None and row.method in handlers:
            handlers[row.method] = _with_rate_limit(row.method, handlers[row.method], rate)
    log = revision.lifecycle.log
    if log is not None and log.method in handlers:
        handlers[log.method] = _in_order(handlers[log.method])


def _with_rate_limit(method: str, handler: Handler, rate: RateLimit) -> Handler:
    """Return the handler with a rate limit. Requests above the limit get an error with the seconds to wait."""
    bucket = TokenBucket(rate)

    async def handle(ctx: Any, params: Any) -> Any:
        if wait := bucket.acquire():
            text = (
                f"the client refuses {method!r}: more than {rate.per_second:g} a second after the first {rate.burst:g}"
            )
            raise JSONRPCError(INTERNAL_ERROR, text, {"retryAfter": round(wait, 3)})
        return await handler(ctx, params)

    return handle


def _in_order(handler: Handler) -> Handler:
    """Return the handler that begins when the one of the previous message has ended."""
    lock = asyncio.Lock()

    async def handle(ctx: Any, params: Any) -> Any:
        async with lock:
            return await handler(ctx, params)

    return handle
