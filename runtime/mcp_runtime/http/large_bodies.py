"""Large messages over HTTP: one after the other, so that the calls of other clients are not delayed by all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, cast

from ..aio.eager import first_step
from ..aio.turns import turns_of_loop, without_collection
from ..protocol.jsonrpc import INTERNAL_ERROR, Message
from ..session.large.incoming import decode_in_pieces
from .asgi import Receive, Scope, Send, Sending, send_error
from .client_keys import address_of, client_key
from .headers import HTTPError

_TOO_MANY: Final = HTTPError(
    503, "too many large messages wait: send one after the other", INTERNAL_ERROR, retry_after=1
)

# Head of the HTTP request, authentication, and `scope`, `receive` and `send` of ASGI.
Context = tuple[Any, Any, Scope, Receive, Send]
Handle = Callable[[tuple[Message | list[Message], Any, Any, Scope, Receive, Send]], Sending]


async def serve_in_turn(body: bytes, context: Context, handle: Handle, max_parts: int, max_batch: int) -> None:
    """Decode a large message and begin to handle it, both in the turn of its client; then finish it."""
    _, auth, scope, _, send = context
    turns = turns_of_loop()
    if not await turns.take(client_key(auth.owner, address_of(scope)), len(body)):
        return await send_error(send, _TOO_MANY)
    rest: Awaitable[None] | None = None
    try:
        with without_collection():
            message = await decode_in_pieces(body, max_parts, max_batch)
            del body
            handling = cast(Coroutine[Any, Any, None], handle((message, *context)))
            del message, context
            try:
                rest = first_step(handling)
            except StopIteration:
                return
    finally:
        turns.give_back()
    await rest
