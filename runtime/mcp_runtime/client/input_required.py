"""Multi round-trip requests: answer the input requests of a result, and send the request again.

MCP specification, https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ..errors import RemoteError

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
