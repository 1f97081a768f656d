"""Results of a stateless upstream that have requests in them, for clients that get requests of their own."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ...errors import JSONRPCError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...protocol.models import is_object
from ..translation.revision_translation import is_input_required
from ..upstream.link import Call, Link
from .dispatching import RelayBase
from .messages import request_of_upstream

_MAX_ROUNDS: Final = 100
_PAUSE: Final = 0.2  # Seconds before a request without input is repeated.


async def send_with_rounds(relay: RelayBase, link: Link, call: Call, params: dict[str, Any]) -> Any:
    """Return the final result of a call: the client answers the requests of the results before it.

    MCP specification: https://modelcontextprotocol.io/specification/draft/basic/patterns/mrtr
    """
    revision, further = link.translation.up, params
    for _ in range(_MAX_ROUNDS):
        result = await relay.send(link, call, further)
        if not is_input_required(revision, call.method, result):
            return result
        requests = result.get("inputRequests")
        responses: dict[str, Any] = {}
        for key, item in requests.items() if is_object(requests) else ():
            item_params: dict[str, Any] = item.get("params") or {}
            responses[key] = await request_of_upstream(link.translation, call.channel, item.get("method"), item_params)
        if not responses:
            await asyncio.sleep(_PAUSE)
        further = {**params, "inputResponses": responses}
        if "requestState" in result:
            further["requestState"] = result["requestState"]
    raise JSONRPCError(INTERNAL_ERROR, f"{call.method!r}: the upstream requested input more than {_MAX_ROUNDS} times")
