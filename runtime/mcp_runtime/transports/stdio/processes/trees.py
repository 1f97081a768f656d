"""The start of a process tree, by the system."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from .environment import child_environment
from .tree import ProcessTree


def start_tree(command: tuple[str, ...], env: Mapping[str, str] | None, cwd: str | None) -> ProcessTree:
    """Start a command without a shell.

    Args:
        command: Program and arguments.
        env: Variables to add to those that a child inherits.
        cwd: Working directory; None is that of this process.

    Raises OSError if it cannot be started, and LocalError for an argument that no batch file can take.
    """
    variables = child_environment(env)
    if sys.platform == "win32":
        from .windows import JobTree

        return JobTree(command, variables, cwd)
    else:
        from .posix import GroupTree

        return GroupTree(command, variables, cwd)
