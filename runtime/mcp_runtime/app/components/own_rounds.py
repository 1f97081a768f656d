"""Rounds that a function makes itself: it returns an InputRequiredResult, whose `request_state` clients cannot read.

https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr
"""

from __future__ import annotations

from typing import Any, Final

_OWN: Final = "#request_state"  # The value of the function, among those that the encrypted state carries.
_ENCRYPTED: Final = "#encrypted"  # What the result of this round has instead of it.


def with_encrypted_state(ctx: Any, result: Any) -> Any:
    """Return a result of a function, with an encrypted `request_state` if it is an InputRequiredResult.

    The state is bound to the user, the method and the params, as that of `ctx.elicit`, and carries its values too.
    """
    request = ctx._mrtr
    if request is None or not hasattr(result, "request_state"):
        return result
    state: str | None = result.request_state
    values: dict[str, Any] = request.values
    if state is not None and values.pop(_ENCRYPTED, None) == state:  # A tool around this one returns its result.
        values[_ENCRYPTED] = state
        return result
    values.pop(_OWN, None)
    if state is None and not values:
        return result
    if state is not None:
        values[_OWN] = state
    values[_ENCRYPTED] = token = request.encrypted_state()
    return result.model_copy(update={"request_state": token})


def own_state(ctx: Any) -> str | None:
    """Return the `request_state` that the function has returned in the round before; None in the first round.

    Raises JSONRPCError if what the client sends is not from this server, or belongs to another request or user.
    """
    state: str | None = getattr(ctx._message.params, "request_state", None)
    if ctx._mrtr is None or state is None:
        return state
    return own if isinstance(own := ctx._mrtr.values.get(_OWN), str) else None
