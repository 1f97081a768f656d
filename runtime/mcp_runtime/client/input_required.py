"""Multi round-trip requests: answer the input requests of a result, and send the request again.

MCP specification, https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, cast

from pydantic import BaseModel

from ..endpoint.base import Endpoint
from ..errors import RemoteError
from ..protocol.events import RequestReceived
from ..protocol.revision import InputRequest, Request
from ..session.options import Params, RequestOptions
from .context import ClientContext

MAX_ROUNDS: Final = 10

AnswerInputRequest = Callable[[Any], Awaitable[Any]]
IsAnswerable = Callable[[Any], bool]
Retry = Callable[[dict[str, Any]], Awaitable[Any]]


async def resolve_input_required(
    method: str,
    params: Mapping[str, Any],
    result: Any,
    *,
    is_answerable: IsAnswerable,
    answer: AnswerInputRequest,
    retry: Retry,
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
            raise RemoteError(f"{method!r}: the server requires input after {max_rounds} rounds")
        rounds += 1
        responses = await answer_input_requests(result.input_requests or {}, answer)
        result = await retry({**params, "inputResponses": responses or None, "requestState": result.request_state})
    return result


async def answer_input_requests(input_requests: Mapping[str, Any], answer: AnswerInputRequest) -> dict[str, Any]:
    """Return the responses to input requests, by their keys. They are answered one after the other, because a user has
    one dialog at a time."""
    return {key: await answer(input_request) for key, input_request in input_requests.items()}


class InputAnswers(Endpoint):
    """The base of clients: it answers input requests with the handlers of the client."""

    async def _resolve_input_required(
        self, row: Request[Any], params: Params, result: Any, options: RequestOptions | None
    ) -> Any:
        """Answer the input requests of a result with this client's handlers, and send the request again."""
        arguments = params.model_dump() if isinstance(params, BaseModel) else dict(params)
        if arguments.get("inputResponses") is not None or arguments.get("requestState") is not None:
            return result  # The caller handles the rounds itself.
        rows = self._input_handlers()

        def is_answerable(result: Any) -> bool:
            if not hasattr(result, "input_requests"):
                return False
            input_requests: dict[str, Any] = result.input_requests or {}
            return all(input_request.method in rows for input_request in input_requests.values())

        async def answer(input_request: Any) -> Any:
            return await self._answer_input_request(rows[input_request.method], input_request.params)

        retry = partial(super()._send_request, row, options=options)
        return await resolve_input_required(
            row.method, arguments, result, is_answerable=is_answerable, answer=answer, retry=retry
        )

    async def _wait_for_task(self, task: BaseModel, options: RequestOptions | None) -> Any:
        """Return the result of the request that was answered with this task."""
        from .task_polling import TaskRequests, wait_for_task

        requests = TaskRequests(
            self.revision,
            self._send_request,
            self._input_handlers(),
            self._answer_input_request,
            self._require_channel().connection.read_result,
        )
        return await wait_for_task(requests, task, options)

    def _input_handlers(self) -> dict[str, InputRequest[Any]]:
        rows = (row for row in self.revision.rows if isinstance(row, InputRequest))
        return {row.method: row for row in rows if row.method in self._handlers}

    async def _answer_input_request(self, row: InputRequest[Any], params: Any) -> Any:
        """Return the response of a handler to an input request."""
        request = RequestReceived("", cast(Any, row), params)
        return await self._handlers[row.method](ClientContext(self._require_channel(), request, self), params)
