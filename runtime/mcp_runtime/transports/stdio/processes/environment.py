"""The environment of a child process: a few variables of this one, and those that the caller adds."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

_INHERITED: Final = (
    *("APPDATA", "COMSPEC", "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "PATHEXT", "SHELL", "SYSTEMROOT"),
    *("TEMP", "TERM", "TMPDIR", "USER", "USERPROFILE", "VIRTUAL_ENV"),
)
_INHERITED_ON_WINDOWS: Final = (
    *("ALLUSERSPROFILE", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432", "HOMEDRIVE"),
    *("HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA"),
    *("PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PUBLIC", "SYSTEMDRIVE", "TMP", "USERDOMAIN", "USERNAME"),
    "WINDIR",
)


def child_environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """Return the variables of a child process. The names of Windows differ in more than case."""
    if sys.platform != "win32":
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {**inherited, **(env or {})}
    names = {*_INHERITED, *_INHERITED_ON_WINDOWS}
    variables = {name: value for name, value in os.environ.items() if name.upper() in names}
    for name, value in (env or {}).items():
        same = [other for other in variables if other.upper() == name.upper()]
        for other in same:
            del variables[other]
        variables[name] = value
    return variables


def variable(variables: Mapping[str, str], name: str, default: str = "") -> str:
    """Return the value of a variable of Windows, whose name is given in capital letters."""
    return next((value for other, value in variables.items() if other.upper() == name), default)


def system_program(name: str) -> str:
    """Return the path of a program of Windows, such as cmd.exe; it is not searched in PATH."""
    return "\\".join((variable(os.environ, "SYSTEMROOT", r"C:\Windows"), "System32", name))
