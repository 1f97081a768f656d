"""A child process and the processes that it starts, which end together."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod

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
