"""The seam of sandboxes: who runs a program that nobody has read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mcp_runtime.errors import MCPError, TracebackNotes
from mcp_runtime.usage.keywords import checked_fields
from mcp_runtime.usage.rules import COUNT, SECONDS

CallFunction = Callable[[str, Sequence[Any], Mapping[str, Any]], Awaitable[Any]]
"""Calls a function of a program by its name, its positional and its keyword arguments. A NameError, a
RuntimeError and a TypeError is raised in the program, and everything else ends it."""


@checked_fields(
    rules={
        "seconds": SECONDS,
        "total_seconds": SECONDS,
        "memory": COUNT,
        "output": COUNT,
        "calls": COUNT,
        "code": COUNT,
    }
)
@dataclass(frozen=True, slots=True)
class CodeLimits:
    """The limits of one program.

    Args:
        seconds: Seconds of its own work, without the calls of tools. Default 5.
        total_seconds: Seconds with the calls of tools. Default 120.
        memory: Bytes of its values. Default 64 MiB.
        output: Characters that it prints and returns; the rest is cut, and the model is told. Default 20,000.
        calls: Calls of tools. Default 100.
        code: Characters of the program. Default 20,000.
    """

    seconds: float = 5.0
    total_seconds: float = 120.0
    memory: int = 64 << 20
    output: int = 20_000
    calls: int = 100
    code: int = 20_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program has printed, and the value of its last line if that is an expression."""

    printed: str
    value: Any = None


class ProgramError(MCPError):
    """Raised by a sandbox for a program that fails or exceeds a limit; the text names the line. The model reads it."""

    __notes__: Any = TracebackNotes()


class Sandbox(Protocol):
    """What runs programs: without files, network, environment and the objects of this process."""

    async def run(self, code: str, functions: Collection[str], call: CallFunction, limits: CodeLimits) -> Outcome:
        """Run a program.

        Args:
            code: Its source.
            functions: The names of the functions that it has.
            call: Calls one of them.
            limits: What it may use.

        Raises ProgramError for a program that fails or exceeds a limit.
        """
        ...
