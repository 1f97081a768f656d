"""Job objects of Windows, by calls of kernel32: a job ends its processes when its last handle is closed, so also when
this process dies.

https://learn.microsoft.com/windows/win32/api/jobapi2/
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any, Final

assert sys.platform == "win32"

_KILL_ON_JOB_CLOSE: Final = 0x2000  # JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
_EXTENDED_LIMITS: Final = 9  # JobObjectExtendedLimitInformation
_SET_QUOTA_AND_TERMINATE: Final = 0x0101  # PROCESS_SET_QUOTA | PROCESS_TERMINATE


class BasicLimits(ctypes.Structure):
    """JOBOBJECT_BASIC_LIMIT_INFORMATION."""

    _fields_ = (
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    )


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = (
        ("BasicLimitInformation", BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    )


class JobObject:
    """The handle of a job object."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def of_process(cls, pid: int) -> JobObject | None:
        """Return a new job object with this process in it; None if the system refuses that.

        Processes that it starts later are in the job object too.
        """
        kernel32 = _kernel32()
        handle: int | None = kernel32.CreateJobObjectW(None, None)
        if not handle:
            return None
        limits = ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        arguments = (handle, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits))
        process: int | None = kernel32.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid)
        added = process and kernel32.SetInformationJobObject(*arguments)
        added = added and kernel32.AssignProcessToJobObject(handle, process)
        if process:
            kernel32.CloseHandle(process)
        if not added:
            kernel32.CloseHandle(handle)
            return None
        return cls(handle)

    def terminate(self, exit_code: int) -> None:
        """End all processes of the job object."""
        _kernel32().TerminateJobObject(self._handle, exit_code)

    def close(self) -> None:
        """Close the handle; processes that still run end."""
        _kernel32().CloseHandle(self._handle)


def has_console() -> bool:
    """Return True if this process has a console, which its children share."""
    return bool(_kernel32().GetConsoleCP())


@cache
def _kernel32() -> Any:
    """Return kernel32 with the types of the functions that are called here: a handle has 64 bits."""
    kernel32: Any = ctypes.WinDLL("kernel32", use_last_error=True)
    handle, number, flag = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int
    functions: dict[str, tuple[Any, list[Any]]] = {
        "CreateJobObjectW": (handle, [handle, ctypes.c_wchar_p]),
        "SetInformationJobObject": (flag, [handle, flag, handle, number]),
        "OpenProcess": (handle, [number, flag, number]),
        "AssignProcessToJobObject": (flag, [handle, handle]),
        "TerminateJobObject": (flag, [handle, number]),
        "CloseHandle": (flag, [handle]),
        "GetConsoleCP": (number, []),
    }
    for name, (result, arguments) in functions.items():
        function = getattr(kernel32, name)
        function.restype = result
        function.argtypes = arguments
    return kernel32
