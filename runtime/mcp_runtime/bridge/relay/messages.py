"""Messages that a bridge writes itself: the results of `initialize` and of discovery, and requests to a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...errors import JSONRPCError, MCPError, RemoteJSONRPCError
from ...protocol.jsonrpc import INTERNAL_ERROR
from ...protocol.models import is_object
from ...protocol.revision import META, Handshake, Stateless
from ...server.dispatcher import NO_CACHE
from ...session.interfaces import Channel
from ...session.options import RequestOptions
from ..raw.raw_connection import FROM_CLIENT, FROM_SERVER, RawResult, raw_request
from ..translation.revision_translation import Translation
from ..upstream.opening import OpenUpstream

_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # A user may take long to answer.
_UNNAMED: Final = {"name": "", "version": ""}


def initialize_result(translation: Translation, upstream: OpenUpstream) -> dict[str, Any]:
    """Return the result of `initialize` for a client: what the upstream is, in the revision of the client."""
    lifecycle, details = translation.down.lifecycle, upstream.details
    assert isinstance(lifecycle, Handshake), "only a handshake has this result"
    names = lifecycle.fields
    own = {
        names.version: translation.down.id,
        names.server_capabilities: translation.server_capabilities(upstream.capabilities),
    }
    if isinstance(upstream.revision.lifecycle, Handshake):
        method = lifecycle.initialize_request.method
        return {**translation.result(FROM_CLIENT, method, details), **own}
    meta = details.get("_meta")
    info = meta.get(f"{META}serverInfo") if is_object(meta) else None
    shared = {"instructions": details["instructions"]} if details.get("instructions") is not None else {}
    info = translation.server_info(info or details.get("serverInfo") or _UNNAMED)
    return {**own, names.server_info: info, **shared}


def discover_result(translation: Translation, upstream: OpenUpstream, served: Sequence[str]) -> dict[str, Any]:
    """Return the result of discovery for a client: what the upstream is, in the revision of the client.

    `served` are the ids of the revisions that the bridge serves without sessions.
    """
    details = upstream.details
    own: dict[str, Any] = {
        "supportedVersions": [*served],
        "capabilities": translation.server_capabilities(upstream.capabilities),
    }
    lifecycle = upstream.revision.lifecycle
    if isinstance(lifecycle, Stateless):
        return {**details, **own}
    shared = {"instructions": details["instructions"]} if details.get("instructions") is not None else {}
    info = translation.server_info(details.get(lifecycle.fields.server_info) or _UNNAMED)
    return {**NO_CACHE, **own, **shared, "_meta": {f"{META}serverInfo": info}}


async def request_of_upstream(
    translation: Translation, channel: Channel, method: str, params: dict[str, Any]
) -> dict[str, Any]:
    """Send a request of an upstream to a client, and return its result, both converted. Raises JSONRPCError."""
    translation.require(FROM_SERVER, method)
    converted = translation.params(FROM_SERVER, method, params)
    try:
        result = await channel.send_request(
            raw_request(translation.method(FROM_SERVER, method), FROM_SERVER), converted, _NO_TIMEOUT
        )
    except RemoteJSONRPCError as error:
        raise translation.error(FROM_SERVER, method, error) from None
    except JSONRPCError:
        raise
    except MCPError as error:
        raise JSONRPCError(INTERNAL_ERROR, f"the client of the bridge did not answer: {error}") from None
    value: dict[str, Any] = result.value if isinstance(result, RawResult) else {}
    converted_result: dict[str, Any] = translation.result(FROM_SERVER, method, value)
    return converted_result
