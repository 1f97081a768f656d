"""A result that asks something first goes in; the client's handlers answer, and what the server says then comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from ..errors import RemoteError
from ..protocol.revision import InputRequest, Request
from ..session.options import Params

MAX_ROUNDS: Final = 10

Retry = Callable[[Params], Awaitable[Any]]
AnswerInputRequest = Callable[[InputRequest[Any], Any], Awaitable[Any]]


async def resolve_input_required(
    row: Request[Any],
    params: Params,
    result: Any,
    rows: Mapping[str, InputRequest[Any]],
    answer_input_request: AnswerInputRequest,
    retry: Retry,
) -> Any:
    """The answer to a request after as many rounds as the server needs; `rows` are the questions that there is somebody
    to answer for, and a result with others comes out as it is. Raises RemoteError after 10 rounds."""
    given: dict[str, Any] = params.model_dump() if isinstance(params, BaseModel) else dict(params)
    if given.get("inputResponses") is not None or given.get("requestState") is not None:
        return result  # Who gives these goes on by hand.
    for _ in range(MAX_ROUNDS):
        if not hasattr(result, "input_requests"):
            return result
        questions: dict[str, Any] = result.input_requests or {}
        if any(each.method not in rows for each in questions.values()):
            return result
        # One after the other: a user has one dialog at a time.
        responses = {key: await answer_input_request(rows[each.method], each.params) for key, each in questions.items()}
        said = {"inputResponses": responses or None, "requestState": result.request_state}
        result = await retry({**given, **said})
    raise RemoteError(f"{row.method!r}: the server asks for more after {MAX_ROUNDS} rounds")
