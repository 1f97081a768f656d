"""A result that asks something first goes in; the client's handlers answer, and what the server says then comes out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from ..errors import RemoteError
from ..spec import InputRequest, Request
from .calls import Params

MOST_ROUNDS: Final = 10

Again = Callable[[Params], Awaitable[Any]]
Answering = Callable[[InputRequest[Any], Any], Awaitable[Any]]


async def go_on(
    row: Request[Any], params: Params, answer: Any, rows: Mapping[str, InputRequest[Any]], ask: Answering, again: Again
) -> Any:
    """The answer to a request after as many rounds as the server needs; `rows` are the questions that there is somebody
    to answer for, and a result with others comes out as it is. Raises RemoteError after 10 rounds."""
    given: dict[str, Any] = params.model_dump() if isinstance(params, BaseModel) else dict(params)
    if given.get("inputResponses") is not None or given.get("requestState") is not None:
        return answer  # Who gives these goes on by hand.
    for _ in range(MOST_ROUNDS):
        if not hasattr(answer, "input_requests"):
            return answer
        questions: dict[str, Any] = answer.input_requests or {}
        if any(each.method not in rows for each in questions.values()):
            return answer
        # One after the other: a user has one dialog at a time.
        responses = {key: await ask(rows[each.method], each.params) for key, each in questions.items()}
        said = {"inputResponses": responses or None, "requestState": answer.request_state}
        answer = await again({**given, **said})
    raise RemoteError(f"{row.method!r}: the server asks for more after {MOST_ROUNDS} rounds")
