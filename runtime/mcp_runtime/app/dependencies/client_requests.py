"""Requests to the client whose answers are the values of dependencies."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar, get_args, get_origin

from ...errors import ToolError
from ...server.context import ServerContext
from .markers import ClientRequest, Elicit, ListRoots, Sample

NodeT = TypeVar("NodeT")

# The classes of the results of `ctx.elicit`; a parameter of such a type takes the result itself.
_RESULTS: Final = frozenset({"AcceptedElicitation", "DeclinedElicitation", "CancelledElicitation"})


class PendingRequestError(Exception):
    """The value of a dependency waits for an answer of the client."""


class Answer:
    """The result of an elicitation, as the value of a dependency."""

    def __init__(self, result: Any) -> None:
        self.result = result


async def answers_of(ctx: ServerContext, requests: Mapping[NodeT, ClientRequest]) -> dict[NodeT, Any]:
    """Return the answers of the client.

    A stateless protocol version sends all requests in one result, another one sends them one after the other.
    """
    if len(requests) > 1 and ctx._mrtr is not None:  # pyright: ignore[reportPrivateUsage]
        return dict(
            zip(requests, await asyncio.gather(*(_answer(ctx, request) for request in requests.values())), strict=True)
        )
    return {node: await _answer(ctx, request) for node, request in requests.items()}


async def _answer(ctx: Any, request: ClientRequest) -> Any:
    if isinstance(request, Elicit):
        elicit: Elicit[Any] = request  # pyright: ignore[reportUnknownVariableType]
        return Answer(await ctx.elicit(elicit.message, elicit.schema))
    if isinstance(request, Sample):
        return await _call(ctx, "create_message", request.arguments)
    assert isinstance(request, ListRoots), "there are no other requests"
    return await _call(ctx, "list_roots", {})


def _call(ctx: Any, method: str, arguments: Mapping[str, Any]) -> Any:
    """Call a method of the context without the warning that it is deprecated: the user's code does not call it."""
    return inspect.unwrap(getattr(ctx.__class__, method))(ctx, **arguments)


def unwrap(answer: Answer, parameter: str) -> Any:
    """Return the data of an accepted elicitation. Raises ToolError for a declined or cancelled one."""
    if answer.result.action != "accept":
        raise ToolError(f"{parameter} has no value: the elicitation has the action {answer.result.action!r}")
    return answer.result.data


def wants_result(hint: Any) -> bool:
    """Return True if a parameter takes the result of an elicitation, also a declined or cancelled one."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    alias = getattr(hint, "__value__", None) or getattr(get_origin(hint), "__value__", None)
    if alias is not None:  # A `type` alias, with or without arguments.
        hint = alias
    kinds = (hint, get_origin(hint), *(inner for item in get_args(hint) for inner in (item, get_origin(item))))
    return any(inspect.isclass(kind) and kind.__name__ in _RESULTS for kind in kinds)
