"""The command line of a child process on Windows: programs found as a shell finds them, and batch files such as `npx`
run by cmd.exe with arguments that it cannot read as commands.

subprocess quotes arguments for programs. cmd.exe reads them by other rules, so an argument could start a program
(CVE-2024-24576, "BatBadBut").
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from mcp_runtime.errors import LocalError

_INHERITED_ON_WINDOWS: Final = (
    *("ALLUSERSPROFILE", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432", "HOMEDRIVE"),
    *("HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA"),
    *("PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432", "PUBLIC", "SYSTEMDRIVE", "TMP", "USERDOMAIN", "USERNAME"),
    "WINDIR",
)

_PATHEXT: Final = ".COM;.EXE;.BAT;.CMD"
_BATCH: Final = (".bat", ".cmd")
_UNSAFE: Final = re.compile(r"[^0-9A-Za-z#$*+\-./:?@\\_\u00a0-\U0010ffff]")  # What needs quotes.
# Extensions on, so that %cd:~,% is empty; delayed expansion off, so that `!` is plain; no AutoRun command.
_SHELL_OPTIONS: Final = "/e:ON /v:OFF /d /c"


def environment(inherited: Iterable[str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a child process: those with these names, a few of Windows, and those of `env`. The names
    of Windows differ in more than case."""
    names = {*inherited, *_INHERITED_ON_WINDOWS}
    variables = {name: value for name, value in os.environ.items() if name.upper() in names}
    for name, value in env.items():
        same = [other for other in variables if other.upper() == name.upper()]
        for other in same:
            del variables[other]
        variables[name] = value
    return variables


def variable(variables: Mapping[str, str], name: str, default: str = "") -> str:
    """Return a variable of Windows, whose name is given in capital letters; the default for an empty one."""
    return next((value for other, value in variables.items() if other.upper() == name), "") or default


def system_program(name: str) -> str:
    """Return the path of a program of Windows, such as cmd.exe; it is not searched in PATH."""
    return "\\".join((variable(os.environ, "SYSTEMROOT", r"C:\Windows"), "System32", name))


def popen_arguments(
    command: Sequence[str], env: Mapping[str, str], cwd: str | None
) -> tuple[str | list[str], str | None]:
    """Return what `subprocess.Popen` takes: the arguments, and the program to execute if they do not name it.

    Raises LocalError if the program is a batch file and an argument has a line end or a NUL, and FileNotFoundError if
    there is no such batch file.
    """
    name = command[0].rstrip(". ") or command[0]  # As Windows reads it.
    program = find_program(name, env, cwd)
    if program is None:
        if name.lower().endswith(_BATCH):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))  # Windows would run one that it finds.
        return list(command), None  # Windows reports the error, or finds the program where only it searches.
    if program.lower().endswith(_BATCH):
        return batch_command_line(program, command[1:]), system_program("cmd.exe")
    return [program, *command[1:]], None


def find_program(name: str, env: Mapping[str, str], cwd: str | None) -> str | None:
    """Return the path of a program in the child's PATH, with one of the extensions of its PATHEXT; None without one.

    The working directory is not searched.
    """
    extensions = list(filter(None, variable(env, "PATHEXT", _PATHEXT).split(";")))
    for path in _candidates(name, env, cwd):
        suffix = os.path.splitext(path)[1].lower()
        if suffix and os.path.isfile(path) and suffix in map(str.lower, extensions):
            return path
        for extension in extensions:
            if os.path.isfile(path + extension):
                return path + extension
    return None


def _candidates(name: str, env: Mapping[str, str], cwd: str | None) -> Iterator[str]:
    """Yield the paths, without an added extension, at which a program may be."""
    if os.path.dirname(name):
        yield os.path.join(cwd or os.curdir, name)
        return
    for folder in variable(env, "PATH").split(os.pathsep):
        if folder := folder.strip('"'):
            yield os.path.join(folder, name)


def batch_command_line(program: str, arguments: Sequence[str]) -> str:
    """Return the command line by which cmd.exe runs a batch file, with these arguments as they are."""
    if '"' in program or "%" in program or program.endswith("\\"):
        raise LocalError(f"{program}: a batch file cannot be started by this name; rename it, or its folder")
    words = [f'"{program}"', *(_batch_argument(argument) for argument in arguments)]
    return f'cmd.exe {_SHELL_OPTIONS} "{" ".join(words)}"'


def _batch_argument(argument: str) -> str:
    """Quote one argument, so that cmd.exe passes it on as it is and the program reads it as it is."""
    if re.search(r"[\r\n\0]", argument):
        raise LocalError(f"{argument!r}: no batch file can take a line end or a NUL in an argument; leave it out")
    # A backslash escapes a quote only, so those before one are doubled. Doubled quotes stay inside for both readers.
    text = re.sub(r'(\\*)"', r'\1\1""', argument)
    text = text.replace("%", "%%cd:~,%")  # No variable is between the two signs: an empty part of the directory is.
    if argument and not argument.endswith("\\") and not _UNSAFE.search(argument):
        return text
    return f'"{text}{_trailing_backslashes(argument)}"'


def _trailing_backslashes(argument: str) -> str:
    return "\\" * (len(argument) - len(argument.rstrip("\\")))
