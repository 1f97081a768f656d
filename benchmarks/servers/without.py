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
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

Change = Callable[[Any], None]  # Gets a module that has just been imported.

_R: Final = "mcp_runtime."
_P: Final = "mcp_products."


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

    module.QuickThreads.run = run


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


# ---- products --------------------------------------------------------------------------------------------------------


def _httpx(module: Any) -> None:
    def build_request(self: Any, method: str, url: str, **named: Any) -> Any:
        return self._client.build_request(method, url, **named)

    module.PlainHTTPClient.build_request = build_request


def _plain_sessions(module: Any) -> None:
    del module.SessionRelay.session_class
    module.DirectSession = type("Nothing", (), {})


_RESULTS: Final = f"{_P}fast.worker_threads"

# By the name of a fast path: the modules, and what changes them.
WITHOUT: Final[dict[str, Sequence[tuple[str, Change]]]] = {
    "-": (),
    "eager": ((f"{_R}aio.tasks", _plain_tasks),),
    "waits": ((_RESULTS, _no_waits),),
    "pool": ((_RESULTS, _plain_pool),),
    "reading": ((f"{_P}fast.stdio", removed("ReadingPipes.watch")),),
    "selector": (
        (
            f"{_R}transports.stdio.server",
            replaced("_new_event_loop", lambda threaded: (asyncio.new_event_loop(), None)),
        ),
    ),
    "polling": ((f"{_P}fast.switches", replaced("BUSY_POLL", False)),),
    "records": ((f"{_P}fast.records", _models),),
    "answers": ((f"{_P}fast.app_answers", _no_json_answers),),
    "scalars": ((f"{_P}fast.app_answers", replaced("scalars_schema", lambda *arguments: None)),),
    "whole": ((f"{_P}fast.http", _no_whole_messages),),
    "held": ((f"{_P}fast.http", _no_held_streams),),
    "small-parts": ((f"{_P}hosting.held_responses", _large_parts),),
    "heads": ((f"{_P}fast.heads", same("RequestHeadParser", "CachedRequestHeadParser")),),
    "lines": ((f"{_P}relay.bridge.session_relay", _plain_sessions),),
    "http-client": ((f"{_P}fast.http_client", _httpx),),
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
