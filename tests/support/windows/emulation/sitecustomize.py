"""Removes from a Python process on Linux what Windows lacks, and adds what only Windows has, as far as stdio needs it.

A process with this folder in its PYTHONPATH runs like this, and so do the processes that it starts. Modules of the
standard library are imported before, because they are those of Linux.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import types
import uuid
from asyncio import selector_events, unix_events
from importlib import import_module
from pathlib import Path
from typing import Any

# Modules that look at the platform when they are imported: they are those of Linux.
EARLY = "getpass logging.handlers shutil tempfile zoneinfo " + os.environ.get("EMULATED_IMPORTS", "")
# Modules that Windows has not, and trio, which would load kernel32.dll.
ABSENT = "fcntl grp pty pwd resource syslog termios trio tty uvloop"
MARK = "EMULATED_TREE"
CTRL_BREAK_EVENT = 1
NO_WINDOW, NEW_GROUP = 0x08000000, 0x00000200
_SIGBREAK, _SIGKILL = signal.SIGUSR2, signal.SIGKILL
_kill, _read, _close = os.kill, os.read, os.close
_reading: set[int] = set()

_MISSING: dict[Any, str] = {
    select: "poll epoll EPOLLIN POLLIN POLLOUT POLLHUP POLLRDHUP POLLNVAL PIPE_BUF",
    os: "killpg waitid fork forkpty setsid getpgid getpgrp setpgid geteuid getuid getegid getgid sched_yield P_PID "
    "CLD_EXITED WEXITED WNOWAIT set_blocking mkfifo register_at_fork chown fchown lchown pipe2 pread pwrite "
    "readv writev sendfile O_NOFOLLOW O_CLOEXEC O_DIRECTORY sched_getaffinity",
    signal: "SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGCHLD SIGPIPE SIGSTOP SIGCONT SIGTSTP SIGQUIT alarm pause "
    "pthread_kill pthread_sigmask setitimer sigwait",
    selectors: "EpollSelector PollSelector",
    socket: "AF_UNIX SO_REUSEPORT",
    asyncio: "open_unix_connection start_unix_server",
}


def _refuse(name: str) -> Any:
    def refused(*arguments: Any, **settings: Any) -> Any:
        raise NotImplementedError(name)

    return refused


def _read_blocking(descriptor: int, size: int) -> bytes:
    _reading.add(descriptor)
    try:
        return _read(descriptor, size)
    finally:
        _reading.discard(descriptor)


def _close_unless_read(descriptor: int) -> None:
    """Windows would wait for the read here, perhaps for ever."""
    if descriptor in _reading:
        _write_and_exit(f"descriptor {descriptor} is closed while a thread reads it")
    _close(descriptor)


def _write_and_exit(text: str) -> None:
    os.write(2, f"emulation: {text}\n".encode())
    os._exit(99)


def _end(pid: int, number: int) -> None:
    """End a process by TerminateProcess, or send it Ctrl-Break."""
    _kill(pid, _SIGBREAK if number == CTRL_BREAK_EVENT else _SIGKILL)


def members(mark: str) -> list[int]:
    """Return the processes of a tree, whose environment has its mark."""
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [pid for pid in pids if mark.encode() in _environment(pid)]


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:  # It has ended, or belongs to another user.
        return b""


_RealPopen = subprocess.Popen
_marks: dict[int, str] = {}


class Popen(_RealPopen):  # type: ignore[type-arg]
    """A process of Windows: it has creation flags and no session, and kill means TerminateProcess."""

    def __init__(self, args: Any, *, creationflags: int = 0, env: Any = None, **settings: Any) -> None:
        if settings.get("start_new_session") or settings.get("preexec_fn") or settings.get("pass_fds"):
            _write_and_exit("Popen got an option of POSIX systems")
        if isinstance(args, list) and args[0].endswith("\\taskkill.exe"):
            for pid in members(_marks[int(args[-1])]):
                _end(pid, 9)
            args = ["true"]
        own = uuid.uuid4().hex
        variables = dict(os.environ if env is None else env)
        variables[MARK] = f"{os.environ.get(MARK, '')}:{own}"
        variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
        self._flags = creationflags
        super().__init__(args, env=variables, **settings)
        _marks[self.pid] = own

    def send_signal(self, sig: int) -> None:
        if self.poll() is not None:
            return
        if sig == CTRL_BREAK_EVENT:
            if self._flags & NEW_GROUP and not self._flags & NO_WINDOW:
                for pid in members(_marks[self.pid]):
                    _end(pid, sig)
        elif sig == signal.SIGTERM:
            self.terminate()
        else:
            raise ValueError(f"Unsupported signal: {sig}")

    def terminate(self) -> None:
        if self.poll() is None:
            _kill(self.pid, _SIGKILL)

    kill = terminate


class Kernel32:
    """The functions of kernel32 that a job object needs. A handle is a number; that of a process is its id."""

    def __init__(self, name: str, use_last_error: bool = False) -> None:
        self.jobs: dict[int, list[str]] = {}
        self.limited: set[int] = set()
        self.processes: list[int] = []  # Open handles of processes.
        names = "CreateJobObjectW SetInformationJobObject OpenProcess AssignProcessToJobObject TerminateJobObject"
        for function in f"{names} CloseHandle GetConsoleCP".split():
            setattr(self, function, _Function(getattr(self, f"_{function}")))

    def _CreateJobObjectW(self, attributes: None, name: None) -> int:
        self.jobs[handle := 1_000_000 + len(self.jobs)] = []
        return handle

    def _SetInformationJobObject(self, job: int, kind: int, limits: Any, size: int) -> int:
        assert kind == 9 and size == 144 and limits._obj.BasicLimitInformation.LimitFlags == 0x2000
        self.limited.add(job)
        return 1

    def _OpenProcess(self, access: int, inherit: bool, pid: int) -> int:
        assert access & 0x0101 == 0x0101 and not inherit
        self.processes.append(pid)
        return pid

    def _AssignProcessToJobObject(self, job: int, process: int) -> int:
        if os.environ.get("EMULATED_NO_JOBS"):
            return 0
        self.jobs[job].append(_marks[process])
        return 1

    def _TerminateJobObject(self, job: int, exit_code: int) -> int:
        for mark in self.jobs[job]:
            for pid in members(mark):
                _end(pid, 9)
        return 1

    def _CloseHandle(self, handle: int) -> int:
        if handle in self.jobs and handle in self.limited:
            self._TerminateJobObject(handle, 0)
        if handle in self.processes:
            self.processes.remove(handle)
        return 1

    def _GetConsoleCP(self) -> int:
        return int(os.environ.get("EMULATED_CONSOLE", "1252"))


class _Function:
    """A function of a library, which types are assigned to."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)


_OF_POSIX_LOOPS = (
    "add_reader add_writer remove_reader remove_writer add_signal_handler remove_signal_handler create_unix_connection "
    "create_unix_server"
).split()
_socketpair, _AF_UNIX = socket.socketpair, socket.AF_UNIX


class ProactorEventLoop(asyncio.SelectorEventLoop):
    """An event loop that signals wake, as they wake the Proactor loop."""

    def __init__(self) -> None:
        super().__init__()
        if threading.current_thread() is threading.main_thread():
            signal.set_wakeup_fd(self._csock.fileno())

    def _process_self_data(self, data: bytes) -> None:
        """Ignore the numbers of signals."""


def _sock_read_done(loop: Any, fd: int, future: Any, handle: Any = None) -> None:
    """Do what the loop of Linux does with a method that is refused to applications."""
    if handle is None or not handle.cancelled():
        loop._remove_reader(fd)


def _sock_write_done(loop: Any, fd: int, future: Any, handle: Any = None) -> None:
    if handle is None or not handle.cancelled():
        loop._remove_writer(fd)


def emulate() -> None:
    """Change the modules of this process."""
    for name in EARLY.split():
        import_module(name)
    asyncio.set_event_loop(None)  # Python 3.14 looks at the platform only then; the event loops are those of Linux.
    vars(selectors)["select"] = types.SimpleNamespace(**vars(select))  # The event loop of Linux needs it.
    for module, names in _MISSING.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    for loop in (selector_events.BaseSelectorEventLoop, unix_events._UnixSelectorEventLoop):
        for name in _OF_POSIX_LOOPS:
            setattr(loop, name, _refuse(name))
    for function in (_sock_read_done, _sock_write_done):
        setattr(selector_events.BaseSelectorEventLoop, function.__name__, function)
    vars(asyncio).update(new_event_loop=ProactorEventLoop, ProactorEventLoop=ProactorEventLoop)
    vars(socket)["socketpair"] = lambda *arguments: _socketpair(_AF_UNIX)  # That of Windows has TCP sockets.
    vars(os)["supports_dir_fd"] = set[Any]()
    sys.modules.update(dict.fromkeys(ABSENT.split()))  # type: ignore[arg-type]
    console = types.ModuleType("msvcrt")
    vars(console)["setmode"] = lambda descriptor, flags: 0x8000
    sys.modules["msvcrt"] = console
    vars(ctypes)["WinDLL"] = Kernel32
    vars(os).update(kill=_end, read=_read_blocking, close=_close_unless_read, O_BINARY=0x8000)
    vars(signal).update(SIGBREAK=_SIGBREAK, CTRL_C_EVENT=0, CTRL_BREAK_EVENT=CTRL_BREAK_EVENT)
    vars(subprocess).update(Popen=Popen, CREATE_NEW_PROCESS_GROUP=NEW_GROUP, CREATE_NO_WINDOW=NO_WINDOW)
    sys.platform = "win32"


emulate()
