"""The client side of the stdio transport: start a server as a child process.

MCP specification: https://modelcontextprotocol.io/specification/draft/basic/transports#stdio
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ...errors import ConnectionClosedError
from ...protocol.framing import DEFAULT_LIMIT, SizeLimit
from .child import child_environment
from .lines import LineTransport, OnLine, pipe_io, uses_threads

if sys.platform != "win32":
    from .piped_child import GroupTree, PipedChild


def start_server(
    command: tuple[str, ...],
    env: Mapping[str, str] | None,
    cwd: str | None,
    stderr: OnLine | None,
    limit: SizeLimit = DEFAULT_LIMIT,
) -> LineTransport:
    """Start the command without a shell, and return the transport to it. An event loop has to run.

    Args:
        command: Program and arguments.
        env: Variables to add to the few that the child inherits (`PATH`, `HOME`, …).
        cwd: Working directory; None is that of this process.
        stderr: Called with each line that the child writes to its standard error; None writes it to ours.
        limit: The size of a message of the child.

    Raises ConnectionClosedError if the command cannot be started, and LocalError for an argument that no batch file of
    Windows can take.
    """
    variables = child_environment(env)
    try:
        if sys.platform != "win32" and not uses_threads():
            return PipedChild(GroupTree(command, variables, cwd), stderr, limit)
        return pipe_io().open_child(command, variables, cwd, stderr, limit)
    except OSError as error:
        place = f" in the folder {cwd!r}" if cwd is not None else ""
        raise ConnectionClosedError(f"{command[0]!r} cannot be started{place}: {error.strerror}") from None
