"""Code mode: clients see a tool to search for functions and a tool to run programs that call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from .monty import MontySandbox as MontySandbox
    from .sandbox import CallFunction as CallFunction
    from .sandbox import CodeLimits as CodeLimits
    from .sandbox import ProgramError as ProgramError
    from .sandbox import Sandbox as Sandbox
    from .transform import CodeMode as CodeMode

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "monty": ("MontySandbox",),
        "sandbox": ("CallFunction", "CodeLimits", "ProgramError", "Sandbox"),
        "transform": ("CodeMode",),
    },
)
