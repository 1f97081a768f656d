"""A child process and the processes that it starts, which end together."""

from __future__ import annotations

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping

from .environment import child_environment

Child = subprocess.Popen[bytes]


class ProcessTree(ABC):
    """A child process, and all that it starts. `child` has pipes to its three standard streams."""

    child: Child

    @abstractmethod
    def exit_code(self) -> int | None:
        """Return the exit code of the child, negative for a signal; None while it runs."""

    @abstractmethod
    def terminate(self) -> None:
        """Request the processes to end, by SIGTERM or Ctrl-Break."""

    @abstractmethod
    def kill(self) -> None:
        """End all processes of the tree at once."""

    @abstractmethod
    def release(self) -> None:
        """Release what the system holds for the tree, after the child has ended."""


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
