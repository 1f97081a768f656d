"""Ports for programs that cannot choose one themselves."""

from __future__ import annotations

import random
import socket
from typing import Final

# Below the ports that systems give to clients: one of those may be taken again before the program has it.
_OURS: Final = range(10_240, 32_000)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody uses."""
    while True:
        port = random.SystemRandom().choice(_OURS)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
