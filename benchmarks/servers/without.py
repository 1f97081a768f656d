"""Run a program without some of the fast paths: `python without.py PATHS program.py …`, or `-m module …`.

PATHS are names of WITHOUT, separated by commas, or `-` for none. Each replaces an attribute of a module when that has
been imported, before others import it from there: the program has the code that remains if the fast path is deleted.
"""

from __future__ import annotations

import asyncio
import runpy
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

Change = Callable[[Any], None]  # Gets a module that has just been imported.

_R: Final = "mcp_runtime."


def replaced(name: str, value: Any) -> Change:
    """Return what sets an attribute of a module; dots lead to an attribute of a class."""

    def change(module: Any) -> None:
        *path, last = name.split(".")
        for part in path:
            module = getattr(module, part)
        getattr(module, last)  # It has to be there.
        setattr(module, last, value)

    return change


def removed(name: str) -> Change:
    """Return what deletes an attribute of a class in a module."""

    def change(module: Any) -> None:
        kind, last = name.split(".")
        delattr(getattr(module, kind), last)

    return change


def same(other: str, name: str) -> Change:
    """Return what replaces an attribute of a module by another one of the same module."""

    def change(module: Any) -> None:
        setattr(module, name, getattr(module, other))

    return change


# ---- tasks -----------------------------------------------------------------------------------------------------------


def _plain_tasks(module: Any) -> None:
    module.task_starter = module.PlainTaskStarter


def _plain_futures(module: Any) -> None:
    module.pending_future = lambda loop: module.ResultFuture(loop=loop)


def _no_first_step(module: Any) -> None:
    module.first_step = lambda coro: coro


# ---- threads ---------------------------------------------------------------------------------------------------------


def _no_waits(module: Any) -> None:
    begin = module.LoopState.__init__

    def init(self: Any, loop: Any) -> None:
        begin(self, loop)
        self.paused_until = float("inf")

    module.LoopState.__init__ = init


def _plain_pool(module: Any) -> None:
    pool = ThreadPoolExecutor(256)

    async def run(self: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        if (reading := getattr(module.READING, "thread", None)) is not None:
            return await self._run_here(reading, function, arguments)
        return await asyncio.get_running_loop().run_in_executor(pool, copy_context().run, function, *arguments)

    module.WorkerThreads.run = run


# ---- messages --------------------------------------------------------------------------------------------------------


def _models(module: Any) -> None:
    module.read_as_record = module.read_as_model
    module.result_type = lambda row: row.result


def _no_json_answers(module: Any) -> None:
    def answer(registry: Any, name: str, ctx: Any, params: Any, states: Any) -> Any:
        return registry.handle(name, ctx, module.as_model(params), states)

    module.answer = answer
    module.ResultTypes.of_calls = module.ResultTypes.of_lists = None


# ---- HTTP ------------------------------------------------------------------------------------------------------------


def _no_whole_messages(module: Any) -> None:
    module.use_whole_messages = lambda modules: False


def _no_held_streams(module: Any) -> None:
    use = module.use_whole_messages

    def use_others(modules: Any) -> bool:
        used: bool = use(modules)
        module.HELD_RESPONSES.clear()
        return used

    module.use_whole_messages = use_others


def _large_parts(module: Any) -> None:
    from collections import deque

    from uvicorn.protocols.http.flow_control import FlowControl

    module.SmallFlowControl = FlowControl
    module.SmallPipeline = deque


def _closed_endpoint(module: Any) -> None:
    """Authenticate each request; look up the kinds of requests in their class; await at each level."""
    kinds = import_module(f"{_R}http.server_rules").RequestKind
    post = module.MCPASGIApp._handle_post

    async def handle_post(self: Any, message: Any) -> None:
        assert kinds.SESSION is not kinds.STATELESS
        await post(self, message)

    closed = property(lambda self: False, lambda self, is_open: None)
    for name, value in (("_is_open", closed), ("_handle_post", handle_post)):
        setattr(module.MCPASGIApp, name, value)


def _awaited(kind: str, *names: str) -> Change:
    def change(module: Any) -> None:
        for name in names:
            setattr(getattr(module, kind), name, _awaiting(getattr(getattr(module, kind), name)))

    return change


def _awaiting(method: Callable[..., Any]) -> Callable[..., Any]:
    async def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return await method(self, *arguments, **named)

    return call


def _awaited_serve(module: Any) -> None:
    """Await the handler of a stateless call in the task of its request, and watch for a disconnect without a task."""
    m = module

    async def serve(self: Any, post: Any) -> None:
        message, head, auth, scope, receive, send = post
        if self._dispatcher is None:
            return await self._serve_after(self._start(), post)
        if isinstance(message, m.RequestMessage) and message.method == self._tool_call:
            if self._loop.time() > self._headers_expire:
                return await self._serve_with_headers(self._dispatcher, post)
            if self._paths and (error := self._check_parameter_headers(head.headers, message.params)) is not None:
                return await m.send_error(send, error, message.id)
        event, responder = self._connection.receive_message(message), self._responder_class(
            self._connection, auth, scope
        )
        if not isinstance(event, m.RequestReceived):
            return await self._handle_notification(event, responder, send)
        if not head.accepts_json:
            responder.open_stream()
        if len(self._running) >= m._MAX_RUNNING and self._counts.is_full(responder.client_key()):
            return await m.send_error(send, m._TOO_MANY, event.id)
        m.CALLER.set(responder.client_key)
        client = m.disconnection(receive)
        client.add_done_callback(responder.client_disconnected)
        self._counts.add(key := responder.client_key())
        self._running[responder] = None
        try:
            outcome = await m.run_request_handler(self._connection, event, self._dispatcher.handle, responder)
        finally:
            client.remove_done_callback(responder.client_disconnected)
            client.cancel()
            self._counts.remove(key)
            del self._running[responder]
        body, code = outcome or m._NO_RESPONSE
        if responder.stream is not None or body is None:
            responder.reply(body, code)
            return await self._send(responder, event.id, receive, send)
        responder.is_done = True
        await self._respond(body, code, responder.auth, send)

    module.StatelessHandler.serve = serve


def _own_handlers(module: Any) -> None:
    begin = module.Session.__init__

    def init(self: Any, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **named)
        self._handlers = self._handlers.own()

    module.Session.__init__ = init


def _stays_own(module: Any) -> None:
    remove, begin = module.RunningHandlers.remove, module.RunningHandlers.__init__

    def remove_only(self: Any, task: Any) -> Any:
        remove(self, task)
        return self

    def init(self: Any, *arguments: Any) -> None:
        begin(self, *arguments)
        self._tasks = {}

    module.RunningHandlers.remove = remove_only
    module.RunningHandlers.__init__ = init


# ---- products --------------------------------------------------------------------------------------------------------


def _httpx(module: Any) -> None:
    def build_request(self: Any, method: str, url: str, **named: Any) -> Any:
        return self._client.build_request(method, url, **named)

    module.PlainHTTPClient.build_request = build_request


def _plain_sessions(module: Any) -> None:
    del module.SessionRelay.session_class
    module.DirectSession = type("Nothing", (), {})


_RESULTS: Final = f"{_R}aio.workers.worker_results"
_CONNECTIONS: Final = f"{_R}transports.http_server.connections."

# By the name of a fast path: the modules, and what changes them.
WITHOUT: Final[dict[str, Sequence[tuple[str, Change]]]] = {
    "-": (),
    "eager": ((f"{_R}aio.eager", _plain_tasks),),
    "inline": ((f"{_R}aio.eager", _plain_futures),),
    "first-step": ((f"{_R}transports.http_server.stateless", _awaited_serve),),
    "first-task": ((f"{_R}aio.eager", _no_first_step),),
    "waits": ((_RESULTS, _no_waits),),
    "sixteen": ((_RESULTS, replaced("_UNWATCHED", 0)),),
    "eventfd": ((_RESULTS, same("IdleThread", "new_idle_thread")),),
    "batches": ((_RESULTS, replaced("_BATCH", 0)),),
    "pool": ((f"{_R}aio.workers.threads", _plain_pool),),
    "reading": ((f"{_R}transports.stdio.pipes", removed("PipeTransport.read_in_thread")),),
    "selector": (
        (
            f"{_R}transports.stdio.server",
            replaced("_new_event_loop", lambda threaded: (asyncio.new_event_loop(), None)),
        ),
    ),
    "polling": ((f"{_R}aio.fast_paths", replaced("BUSY_POLL", False)),),
    "records": ((f"{_R}protocol.wire.core_records", _models),),
    "answers": ((f"{_R}app.components.json_answers", _no_json_answers),),
    "scalars": ((f"{_R}app.introspection.scalars", replaced("scalars_schema", lambda *arguments: None)),),
    "whole": ((f"{_CONNECTIONS}whole_messages", _no_whole_messages),),
    "held": ((f"{_CONNECTIONS}whole_messages", _no_held_streams),),
    "small-parts": ((f"{_CONNECTIONS}small_parts", _large_parts),),
    "heads": ((f"{_R}http.request_head", same("RequestHeadParser", "CachedRequestHeadParser")),),
    "shortcuts": (
        (f"{_R}transports.http_server.app", _closed_endpoint),
        (f"{_R}transports.http_server.stateless", _awaited("StatelessHandler", "serve")),
        (f"{_R}transports.http_server.stateful", _awaited("StatefulHandler", "serve", "_respond")),
    ),
    "idle": ((f"{_R}session.session", _own_handlers), (f"{_R}session.running", _stays_own)),
    "append": (
        (f"{_R}stores.sqlite_store", removed("SQLiteStore.append_at_once")),
        (f"{_R}stores.command_batches", replaced("fast_paths", SimpleNamespace(ENABLED=False))),
    ),
    "lines": ((f"{_R}bridge.relay.session_relay", _plain_sessions),),
    "http-client": ((f"{_R}bridge.upstream.http.upstream_http", _httpx),),
}


class Changes(MetaPathFinder):
    """Changes modules when they have been imported."""

    def __init__(self, names: Sequence[str]) -> None:
        self._changes: dict[str, list[Change]] = {}
        for module, change in [pair for name in names for pair in WITHOUT[name]]:
            self._changes.setdefault(module, []).append(change)
        self._finding = False

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        changes = self._changes.pop(fullname, None)
        if changes is None:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(fullname, path, target)) is not None:
                break
        else:
            return None
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for change in changes:
                change(module)

        loader.exec_module = exec_module
        return spec

    def check(self) -> None:
        """Raise SystemExit if the program has not imported a module that was to be changed."""
        if self._changes:
            raise SystemExit(f"never imported: {', '.join(self._changes)}")


if __name__ == "__main__":
    names, program, *_ = sys.argv[1:]
    changes = Changes(names.split(","))
    sys.meta_path.insert(0, changes)
    if program == "-m":
        sys.argv[:] = sys.argv[3:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = sys.argv[2:]
        sys.path[0] = str(Path(program).resolve().parent)
        runpy.run_path(program, run_name="__main__")
