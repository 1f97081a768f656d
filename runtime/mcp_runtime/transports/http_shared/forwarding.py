"""Messages of a client for a handler of another worker: responses, progress and cancellations."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ...protocol import jsonrpc
from ...protocol.jsonrpc import (
    ErrorMessage,
    MalformedMessage,
    Message,
    NotificationMessage,
    RequestMessage,
    ResultMessage,
)
from ...protocol.models import is_object
from ...session.running import ignore_response
from .local_replicas import Replicas
from .session_replicas import SessionReplica
from .stream_claims import send_to_holder
from .worker import Worker


class MessageForwarding:
    """Pass messages to the worker whose handler waits for them. The ids of requests to clients name their worker."""

    def __init__(self, worker: Worker, replicas: Replicas) -> None:
        self._worker = worker
        self._replicas = replicas
        worker.on("message", self._on_message)
        worker.on("cancel", self._on_cancel)
        worker.on("stream", self._on_stream)

    async def forward(
        self, replica: SessionReplica, message: Message | list[Message]
    ) -> Message | list[Message] | None:
        """Send what belongs to another worker to it; return the rest, None if there is none."""
        if isinstance(message, RequestMessage):
            return message
        if isinstance(message, list):
            rest = [item for item in message if await self.forward(replica, item) is not None]
            return rest or None
        worker = await self._worker_of(replica, message)
        if worker is None:
            return message
        await self._worker.deliver(worker, "message", session=replica.id, message=to_json(_fields(message)).decode())
        return None

    async def _worker_of(self, replica: SessionReplica, message: Message) -> str | None:
        """Return the other worker that a message is for, None for this one. Cancellations are for all workers."""
        assert replica.session is not None, "a replica has its session"
        lifecycle = replica.session.connection.revision.lifecycle
        if isinstance(message, (ResultMessage, ErrorMessage, MalformedMessage)):
            return self._worker.other_worker(message.id)
        params = message.params if is_object(message.params) else {}
        if message.method == lifecycle.progress.method:
            return self._worker.other_worker(params.get("progressToken"))
        id = params.get("requestId")
        if message.method == lifecycle.cancelled.method and id not in replica.session.running:
            fields = {"session": replica.id, "id": id, "reason": params.get("reason")}
            await self._worker.deliver_to_all("cancel", **fields)
        return None

    def _on_message(self, fields: dict[str, Any]) -> None:
        replica = self._replicas.get(fields["session"])
        if replica is not None and (session := replica.session) is not None:
            event = session.connection.receive_message(jsonrpc.decode(fields["message"].encode()))
            session.handle_event(event, ignore_response, session)

    def _on_cancel(self, fields: dict[str, Any]) -> None:
        replica = self._replicas.get(fields["session"])
        if replica is not None and replica.session is not None:
            replica.session.cancel_handler(fields["id"], fields["reason"])

    def _on_stream(self, fields: dict[str, Any]) -> None:
        if (stream := self._worker.streams.get(fields["stream"])) is not None:
            stream.on_hint(fields["hint"], fields.get("token", ""))
        elif fields["hint"] == "release":  # It has ended here meanwhile, and the next connection has not read the rest.
            self._worker.spawn(send_to_holder(self._worker, fields["stream"], "news"))


def _fields(message: ResultMessage | ErrorMessage | MalformedMessage | NotificationMessage) -> dict[str, Any]:
    """Return a message as JSON-RPC has it."""
    fields: dict[str, Any] = {"jsonrpc": "2.0"}
    if isinstance(message, NotificationMessage):
        return {**fields, "method": message.method, "params": message.params or {}}
    if isinstance(message, ResultMessage):
        return {**fields, "id": message.id, "result": message.result}
    if isinstance(message, ErrorMessage):
        error = {"code": message.code, "message": message.message, "data": message.data}
        return {
            **fields,
            "id": message.id,
            "error": {name: value for name, value in error.items() if value is not None},
        }
    return {**fields, "id": message.id, "error": {"code": message.code, "message": message.message}}
