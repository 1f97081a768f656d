"""Servers of golden conversations that are forked from a process which has imported all: hundreds of them start, and
most of what a start costs is imports.

As a program: `forked_server.py DESCRIPTOR` forks for each request on the socket with this descriptor.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final

SERVER: Final = Path(__file__).resolve().parents[1] / "servers" / "golden.py"
CAN_FORK: Final = sys.platform == "linux"  # Elsewhere, nothing is notified of the end of a process that is not a child.
_SIZE: Final = 4096


class ForkedServer:
    """A server process, with the part of `subprocess.Popen` that a conversation needs."""

    def __init__(self, arguments: list[str], stderr: int) -> None:
        self.returncode: int | None = None
        self._socket = _socket()
        incoming, stdin = os.pipe()
        stdout, outgoing = os.pipe()
        socket.send_fds(self._socket, [json.dumps(arguments).encode()], [incoming, outgoing, stderr])
        os.close(incoming)
        os.close(outgoing)
        self.stdin = open(stdin, "wb", buffering=0)
        self.stdout = open(stdout, "rb", buffering=0)
        self.pid = int(self._socket.recv(_SIZE))

    def wait(self, timeout: float) -> int:
        """Return the exit code. Raises TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._socket], [], [], max(timeout, 0))[0]:
                raise subprocess.TimeoutExpired(str(SERVER), timeout)
            pid, code = map(int, self._socket.recv(_SIZE).split())
            assert pid == self.pid
            self.returncode = code
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, if the process has not been waited for."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)


@cache
def _socket() -> socket.socket:
    """Return the socket to the process that forks, which ends when this process has closed it."""
    from support.processes import end_with_session

    own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with other:
        words = [sys.executable, __file__, str(other.fileno())]
        end_with_session(subprocess.Popen(words, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL))
    return own


async def _load(server: Any) -> None:
    """Load what a conversation loads: modules, and the types of its messages."""
    import mcp_runtime.transports.stdio.server
    from mcp_generated import connect
    from mcp_products.platforms import pipe_threads as threaded
    from mcp_runtime.transports.stdio import pipes

    assert pipes and threaded and mcp_runtime.transports.stdio.server
    for package in server.PACKAGES:
        async with connect(server.golden(package)) as client:
            assert await client.list_tools() and await client.list_resources()
            await client.call_tool("echo", {"text": ""})


def main() -> None:
    """Fork for each request, report the end of each child, and be a server in the children."""
    spec = spec_from_file_location("golden_server", SERVER)
    assert spec is not None and spec.loader is not None
    server: Any = module_from_spec(spec)
    spec.loader.exec_module(server)
    asyncio.run(_load(server))
    gc.freeze()  # A child visits and copies nothing of what it inherits, neither in a collection nor at its end.
    assert threading.active_count() == 1, "a fork has no other threads than the one that forks"
    requests = socket.socket(fileno=int(sys.argv[1]))
    children: dict[int, int] = {}
    while True:
        ready = select.select([requests, *children], [], [])[0]
        for child in ready:
            if child is requests:
                continue
            pid = children.pop(child)
            os.close(child)
            requests.send(b"%d %d" % (pid, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
        if requests in ready:
            message, descriptors, _, _ = socket.recv_fds(requests, _SIZE, 3)
            if not message:
                return
            pid = os.fork()
            if pid == 0:
                break
            for descriptor in descriptors:
                os.close(descriptor)
            children[os.pidfd_open(pid)] = pid
            requests.send(b"%d" % pid)
    requests.close()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    server.main(json.loads(message))


if __name__ == "__main__":
    main()
