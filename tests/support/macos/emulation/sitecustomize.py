"""Removes from a Python process on Linux what macOS lacks, as far as stdio needs it.

A process with this folder in its PYTHONPATH runs like this, and so do the processes that it starts.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import socket
import sys
from asyncio import selector_events
from importlib import import_module
from typing import Any

EARLY = "getpass logging.handlers shutil tempfile uuid zoneinfo"  # They look at the platform when they are imported.
_MISSING: dict[Any, str] = {
    select: "POLLRDHUP epoll EPOLLIN EPOLLOUT EPOLLHUP EPOLLERR EPOLLRDHUP EPOLL_CLOEXEC",
    os: "waitid P_PID P_PIDFD CLD_EXITED WEXITED WNOWAIT pidfd_open eventfd memfd_create pipe2 sched_getaffinity",
    signal: "sigtimedwait sigwaitinfo pidfd_send_signal SIGPOLL SIGPWR SIGRTMIN SIGRTMAX",
    socket: "SOCK_CLOEXEC SOCK_NONBLOCK SO_PEERCRED TCP_QUICKACK TCP_USER_TIMEOUT",
    selectors: "EpollSelector",
}
_poll, _add_reader = select.poll, selector_events.BaseSelectorEventLoop.add_reader


class Poll:
    """`select.poll`, which ends the process for a terminal: that of macOS reports it as invalid."""

    def __init__(self) -> None:
        self._poll = _poll()

    def register(self, descriptor: Any, events: int) -> None:
        _refuse_terminal(descriptor)
        self._poll.register(descriptor, events)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poll, name)


def _watch(loop: Any, descriptor: Any, *arguments: Any) -> None:
    _refuse_terminal(descriptor)
    _add_reader(loop, descriptor, *arguments)


def _refuse_terminal(descriptor: Any) -> None:
    number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
    if os.isatty(number):
        os.write(2, b"emulation: a terminal is watched\n")
        os._exit(99)


def _hide_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith("/proc"):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])


def emulate() -> None:
    """Change the modules of this process."""
    for name in EARLY.split():
        import_module(name)
    vars(selectors)["DefaultSelector"] = selectors.PollSelector
    for module, names in _MISSING.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    vars(select)["poll"] = Poll
    vars(sys.modules["asyncio.selector_events"])["BaseSelectorEventLoop"].add_reader = _watch
    sys.addaudithook(_hide_processes)
    sys.platform = "darwin"


emulate()
