"""The sandbox of pydantic-monty: an interpreter of a part of Python, without anything of the system, in processes of
its own.

A step of a program is a call of a thread. So this process has no callbacks of the interpreter, and the functions that a
program calls run in the event loop, in the context of the request.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from importlib import import_module
from typing import Any, Final
from weakref import WeakKeyDictionary, finalize

from mcp_runtime.errors import NotInstalledError

from .sandbox import CallFunction, CodeLimits, Outcome, ProgramError

try:
    pydantic_monty: Any = import_module("pydantic_monty")  # An optional package, so that types are checked without it.
except ModuleNotFoundError:
    raise NotInstalledError("code mode needs pydantic-monty: pip install 'mcp-generated[code]'") from None

_STEPS: Final = 1000  # Beside the calls of functions: imports, and what the interpreter refuses.
_PRINTED: Final = 4  # How many times the limit of the output a program may print before it is ended; it is cut then.
_WAIT: Final = 30.0  # Seconds to wait for a process that is free.
_BUSY: Final = "all sandboxes are busy: run the program again later"
_POLICY: Final[Any] = {"sleep": "zero", "timezone": "utc"}


class MontySandbox:
    """A pool of processes that run programs. They start with the first program, and end when nobody has the pool any
    more, at the latest with this process."""

    def __init__(self, processes: int | None = None) -> None:
        """Create a pool.

        Args:
            processes: How many programs run at the same time. Default None: one for each processor.
        """
        self._processes = (os.cpu_count() or 1) if processes is None else processes
        self._pool: Any = None
        self._starting = threading.Lock()
        # Programs wait here, and not in threads: those that wait would take all threads from those that run.
        self._free: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def run(self, code: str, functions: Collection[str], call: CallFunction, limits: CodeLimits) -> Outcome:
        """Run a program. Raises ProgramError for one that fails or exceeds a limit."""
        free = self._free.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._processes))
        try:
            async with asyncio.timeout(_WAIT):
                await free.acquire()
        except TimeoutError:
            raise ProgramError(_BUSY) from None
        try:
            return await self._run(code, functions, call, limits)
        finally:
            free.release()

    async def _run(self, code: str, functions: Collection[str], call: CallFunction, limits: CodeLimits) -> Outcome:
        pool = await _in_thread(self._started)
        session = pool.checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                "max_suspensions": limits.calls + _STEPS,
            },
            os_policy=_POLICY,
        )
        printed = pydantic_monty.CollectString(limits.output * _PRINTED)
        try:
            entered = await _in_thread(session.__enter__)
        except TimeoutError:
            raise ProgramError(_BUSY) from None
        try:
            value = await self._drive(entered, code, dict.fromkeys(functions, _nothing), printed, call)
        except pydantic_monty.MontyError as error:
            raise ProgramError(_described(error, printed.output)) from None
        finally:
            with suppress(pydantic_monty.MontyError):
                await asyncio.shield(_in_thread(session.__exit__, None, None, None))
        return Outcome(printed.output, value)

    async def _drive(self, session: Any, code: str, names: dict[str, Any], printed: Any, call: CallFunction) -> Any:
        """Return the value of the last line. What a program calls is called between two of its steps."""
        step = await _in_thread(lambda: session.feed_start(code, external_lookup=names, print_callback=printed))
        while not isinstance(step, pydantic_monty.MontyComplete):
            if not isinstance(step, pydantic_monty.FunctionSnapshot):
                step = await _in_thread(step.resume_auto)
            elif step.is_os_function or step.object_id is not None:
                step = await _in_thread(step.resume_not_handled)
            else:
                answer: Any
                try:
                    answer = {"return_value": await call(str(step.function_name), step.args, step.kwargs)}
                except (NameError, RuntimeError, TypeError) as error:
                    answer = {"exception": error}
                step = await _in_thread(step.resume, answer)
        return step.output

    def _started(self) -> Any:
        with self._starting:
            if self._pool is None:
                pool = pydantic_monty.Monty(max_processes=self._processes, checkout_timeout=_WAIT)
                pool.__enter__()
                finalize(self, pool.__exit__, None, None, None)
                self._pool = pool
        return self._pool


def _nothing(*_: object, **__: object) -> None:
    raise AssertionError("a call of a program is answered between two steps")


async def _in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    return await asyncio.to_thread(function, *arguments)


def _described(error: Any, printed: str) -> str:
    """Return what is wrong with a program, with its line, and what it had printed."""
    if isinstance(error, pydantic_monty.MontyCrashedError):
        text = "the program ended its sandbox: it used too much time, memory or depth"
    else:
        cause = error.exception()
        kind, message = type(cause).__name__, str(cause)
        frames = [frame for frame in error.traceback() if frame.line] if hasattr(error, "traceback") else []
        place = "".join(map(_place, frames))
        text = f"{place}{kind}: {message}"
    return f"{printed}{text}" if len(printed) < len(text) + 2000 else f"{printed[:2000]}…\n{text}"


def _place(frame: Any) -> str:
    function = "" if frame.function_name in (None, "<module>") else f" in {frame.function_name}"
    return f"line {frame.line}{function}: {(frame.source_line or '').strip()}\n"
