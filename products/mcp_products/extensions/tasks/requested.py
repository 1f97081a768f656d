"""Tasks of protocol versions in which the client requests them with a call, and requests their results later."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic_core import from_json

from mcp_products.versions.messages import ConvertingChannel, MessageConverter
from mcp_runtime.aio import clock
from mcp_runtime.endpoint.base import Handler
from mcp_runtime.errors import JSONRPCError, RemoteJSONRPCError
from mcp_runtime.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, serialize
from mcp_runtime.protocol.models import PreSerialized, plain_of
from mcp_runtime.protocol.revision import META, OPPOSITE
from mcp_runtime.server.context import ServerContext
from mcp_runtime.server.limits import with_rate
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.usage.texts import quoted

from .store import TERMINAL_STATUSES, TaskRecord

_RELATED: Final = f"{META}related-task"
_NO_TIMEOUT: Final = RequestOptions(timeout=None)  # A user may take long to answer.
_PAUSE: Final = 0.1  # Seconds between two looks at a task whose client waits for its result.
_CANCEL_SECONDS: Final = 2.0  # Seconds for a cancelled function to end, before its client gets an answer.
_HANDLERS: Final = ("get_task", "get_task_payload", "cancel_task")


@dataclass(slots=True)
class TaskRequest:
    """The request of a call to become a task; `ttl` is the number of milliseconds that the client requests."""

    ttl: int | None


class TaskCreated(BaseException):
    """Ends a call that was answered with a task. A BaseException: it passes the conversion between versions."""

    def __init__(self, record: TaskRecord) -> None:
        super().__init__(record.id)
        self.record = record


class RequestedTasks:
    """The handlers of one protocol version with such tasks."""

    def __init__(self, tasks: Any, converter: MessageConverter, call: Any) -> None:
        """Create the handlers for these `ServerTasks`; `call` is the row of the request that may become a
        task."""
        self._tasks = tasks
        self._converter = converter
        self._call = call
        self._rows = {row.name: row for row in converter.wire_revision.table(converter.receives).values()}

    @property
    def is_possible(self) -> bool:
        """Whether the version has such tasks, and the server has functions for them."""
        return all(name in self._rows for name in _HANDLERS) and bool([*self._tasks.options()])

    def capability(self) -> dict[str, Any]:
        """Return the capability of the server, as JSON."""
        kind, _, name = self._call.method.partition("/")
        return {"cancel": {}, "requests": {kind: {name: {}}}}

    def handlers(self, converted: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return the handlers of the version, by method."""
        by_name: dict[str, Handler] = {
            "get_task": self._get,
            "get_task_payload": self._payload,
            "cancel_task": self._cancel,
        }
        handlers = {**converted, **{self._rows[name].method: self._limited(name, by_name[name]) for name in by_name}}
        handlers[self._call.method] = self._with_task(converted[self._call.method])
        listing = self._rows["list_tools"].method
        handlers[listing] = self._with_support(converted[listing])
        return handlers

    def _limited(self, name: str, handler: Handler) -> Handler:
        """Return a handler with the rate limit that the server has for it."""
        rate = self._tasks.server.client_rates.get(name)
        return handler if rate is None else with_rate(self._rows[name].method, handler, rate)

    # ---- calls and lists ---------------------------------------------------------------------------------------------

    def _with_task(self, handler: Handler) -> Handler:
        async def call(ctx: ServerContext, params: Any) -> Any:
            requested, options = plain_of(params).get("task"), self._tasks.options_of(params.name)
            if requested is None and (options is None or not options.required):
                return await handler(ctx, params)
            if requested is None:
                raise JSONRPCError(METHOD_NOT_FOUND, f"the tool {quoted(params.name)} runs as a task only: request one")
            if options is None:
                raise JSONRPCError(METHOD_NOT_FOUND, f"the tool {quoted(params.name)} cannot run as a task")
            ctx.task_request = TaskRequest(requested.get("ttl"))
            try:
                return await handler(ctx, params)
            except TaskCreated as created:
                return PreSerialized({"task": _wire(created.record)})

        return call

    def _with_support(self, handler: Handler) -> Handler:
        async def list_tools(ctx: ServerContext, params: Any) -> Any:
            listed = _plain(await handler(ctx, params))
            for tool in listed["tools"]:
                if (options := self._tasks.options_of(tool["name"])) is not None:
                    tool["execution"] = {"taskSupport": "required" if options.required else "optional"}
            return PreSerialized(listed)

        return list_tools

    # ---- requests about tasks ----------------------------------------------------------------------------------------

    async def _get(self, ctx: ServerContext, params: Any) -> Any:
        return PreSerialized(_wire(await self._tasks.require_record(ctx, params.task_id)))

    async def _cancel(self, ctx: ServerContext, params: Any) -> Any:
        """Cancel a task, and return it once its function has ended."""
        execution = await self._tasks.running_execution(ctx, params.task_id)
        if execution is None:
            raise JSONRPCError(INVALID_PARAMS, f"the task {quoted(params.task_id)} has ended already")
        execution.cancel("cancelled")
        until = clock.monotonic() + _CANCEL_SECONDS
        while True:
            record = await self._tasks.require_record(ctx, params.task_id)
            if record.status in TERMINAL_STATUSES or clock.monotonic() > until:
                return PreSerialized(_wire(record))
            await asyncio.sleep(_PAUSE)

    async def _payload(self, ctx: ServerContext, params: Any) -> Any:
        """Return the result of a task when it has ended; until then, send its input requests to the client."""
        answered: set[str] = set()
        while True:
            record = await self._tasks.require_record(ctx, params.task_id)
            if record.status in TERMINAL_STATUSES:
                return self._result_of(record)
            requests: Mapping[str, Any] = record.detail.get("inputRequests", {})
            new = requests.keys() - answered
            for key in new:
                answered.add(key)
                await self._answer(ctx, record, key, requests[key])
            if not new:
                await asyncio.sleep(_PAUSE)

    async def _answer(self, ctx: ServerContext, record: TaskRecord, key: str, request: Mapping[str, Any]) -> None:
        """Send an input request of a task to the client, and pass the response to the task."""
        converter = self._converter
        channel = ConvertingChannel(converter, ctx.channel, cast(Any, ctx.received))
        row = converter.rows[OPPOSITE[converter.receives], request["method"]]
        fields = {**request.get("params", {}), "_meta": _related(record)}
        try:
            response = await channel.send_wire_request(row, fields, _NO_TIMEOUT)
        except RemoteJSONRPCError as error:
            raise JSONRPCError(error.code, error.message, error.data) from error
        execution = await self._tasks.running_execution(ctx, record.id)
        if execution is not None:
            await execution.resolve_inputs({key: response})

    def _result_of(self, record: TaskRecord) -> Any:
        """Return what the call of a task has returned. Raises JSONRPCError for an error, and for a cancelled task."""
        if record.status != "completed":
            error = record.detail.get("error", {"code": INVALID_PARAMS, "message": "the task was cancelled"})
            raise JSONRPCError(error["code"], error["message"], error.get("data"))
        result = self._call.read_result(record.detail["result"])
        wire = _plain(self._converter.wire_result(self._rows[self._call.name], self._call, result))
        return PreSerialized({**wire, "_meta": {**wire.get("_meta", {}), **_related(record)}})


def _related(record: TaskRecord) -> dict[str, Any]:
    return {_RELATED: {"taskId": record.id}}


def _plain(result: Any) -> Any:
    return from_json(serialize(result.value if type(result) is PreSerialized else result))


def _wire(record: TaskRecord) -> dict[str, Any]:
    """Return a task as JSON. A result that is an error of the tool is a failed task in these versions."""
    fields = {name: value for name, value in record.to_wire().items() if name not in record.detail}
    failed = record.status == "completed" and record.detail.get("result", {}).get("isError")
    ttl, poll_interval = fields.pop("ttlMs"), fields.pop("pollIntervalMs")
    return {**fields, "status": "failed" if failed else record.status, "ttl": ttl, "pollInterval": poll_interval}
