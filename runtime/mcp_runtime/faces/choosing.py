"""The first message of a conversation goes in; which of the servers it is for comes out, or what it is answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from pydantic_core import from_json

from ..framing import OVERSIZED_MESSAGE
from ..peer import RequestReceived, Connection, MessageRejected
from ..seams import Transport
from ..spec import META, Handshake
from ..wire import is_object
from .face import Candidate

if TYPE_CHECKING:
    from .server import BaseServer

ServerT = TypeVar("ServerT", bound="BaseServer")


def select_service(candidates: Sequence[Candidate[ServerT]], first: bytes) -> ServerT | None:
    """The server that this message opens a conversation with: of those it could be, the one whose revision it names,
    else the newest; None where it opens none."""
    shaking = [each for each in candidates if each.stateful]
    stateless = [each for each in candidates if not each.stateful]
    try:
        message = from_json(first) if first is not OVERSIZED_MESSAGE else None
    except ValueError:
        message = None
    params = message.get("params") if is_object(message) else None
    meta = params.get("_meta") if is_object(params) else None
    if stateless and (not shaking or (is_object(meta) and f"{META}protocolVersion" in meta)):
        return stateless[-1].get()
    offered = params.get("protocolVersion") if is_object(params) else None
    named = next((each for each in shaking if each.revision_id == offered), shaking[-1]).get()
    if not stateless:
        return named
    lifecycle = named.revision.lifecycle
    opens = (
        isinstance(lifecycle, Handshake)
        and is_object(message)
        and message.get("method") == lifecycle.initialize_request.method
    )
    return named if opens else None


def reject_message(candidates: Sequence[Candidate[ServerT]], transport: Transport, data: bytes) -> None:
    """Answer what no conversation begins with, as a server that waits for a handshake does."""
    server = next(each for each in reversed(candidates) if each.stateful).get()
    lobby = Connection(server.revision, "server", local_capabilities=server.capabilities)
    event = lobby.oversized() if data is OVERSIZED_MESSAGE else lobby.receive(data)
    if isinstance(event, RequestReceived):  # A probe: nothing else is served this early.
        transport.send(lobby.send_result(event, event.row.result()))
    elif isinstance(event, MessageRejected) and event.reply is not None:
        transport.send(event.reply)
