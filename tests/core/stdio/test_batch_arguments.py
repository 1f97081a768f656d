"""Batch files such as npx.cmd get their arguments as they are, whatever cmd.exe would read in them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_products.platforms.commands import batch_command_line, find_program, popen_arguments
from mcp_runtime.errors import LocalError

PROGRAM = "C:\\Program Files\\nodejs\\npx.cmd"
PREFIX = f'cmd.exe /e:ON /v:OFF /d /c ""{PROGRAM}"'
EMPTY = "%cd:~,%"  # cmd.exe replaces it by an empty part of the name of the directory.
OPERATORS = "&|<>()^"  # What cmd.exe obeys outside of quotes.


def as_cmd_passes_it(line: str) -> str:
    """Return the arguments as cmd.exe passes them to the batch file. Raises AssertionError if it would obey one."""
    assert line.startswith(PREFIX) and line.endswith('"')
    text = line[len(PREFIX) : -1]
    assert "%" not in text.replace(f"%{EMPTY}", ""), "a variable would be expanded"
    text = text.replace(EMPTY, "")
    quoted = False
    for character in text:
        if character == '"':
            quoted = not quoted
        assert quoted or character not in OPERATORS, f"{character} is outside of quotes"
    return text


def as_programs_read_it(text: str) -> list[str]:
    """Return the arguments by the rules of the C runtime.

    https://learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments
    """
    arguments: list[str] = []
    current, quoted, at, started = "", False, 0, False
    while at < len(text):
        slashes = len(text[at:]) - len(text[at:].lstrip("\\"))
        after = text[at + slashes : at + slashes + 1]
        if slashes:
            current += "\\" * (slashes // 2 if after == '"' else slashes)
            started, at = True, at + slashes
            if after == '"' and slashes % 2:
                current, at = current + '"', at + 1
        elif after == '"' and quoted and text[at + 1 : at + 2] == '"':
            current, at = current + '"', at + 2
        elif after == '"':
            quoted, started, at = not quoted, True, at + 1
        elif after == " " and not quoted:
            arguments += [current] if started else []
            current, started, at = "", False, at + 1
        else:
            current, started, at = current + after, True, at + 1
    return [*arguments, current] if started else arguments


ARGUMENTS = [
    '"&calc.exe',
    '" & calc.exe & "',
    "%PATH%",
    "%CMDCMDLINE:~-1%&calc.exe",
    "a b",
    "",
    "C:\\folder\\",
    "C:\\with space\\",
    '\\"',
    '\\\\"&calc',
    "^&|<>()!x!",
    "@scope/package@latest",
    "-y",
    "日本語 é",
    "100%",
    "tab\there",
]


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_an_argument_reaches_the_program_as_it_is(argument: str) -> None:
    line = batch_command_line(PROGRAM, ["before", argument, "after"])
    assert as_programs_read_it(as_cmd_passes_it(line)) == ["before", argument, "after"]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8"), max_size=12), max_size=4))
def test_any_arguments_reach_the_program_as_they_are(arguments: list[str]) -> None:
    assert as_programs_read_it(as_cmd_passes_it(batch_command_line(PROGRAM, arguments))) == arguments


@pytest.mark.parametrize("argument", ["a\nb", "a\r\ncalc.exe", "a\0"])
def test_a_line_end_or_a_nul_is_refused(argument: str) -> None:
    with pytest.raises(LocalError, match="line end or a NUL"):
        batch_command_line(PROGRAM, [argument])


@pytest.mark.parametrize("program", ['C:\\a"b\\x.cmd', "C:\\%PATH%\\x.cmd", "C:\\x.cmd\\"])
def test_a_batch_file_with_a_name_that_cmd_would_change_is_refused(program: str) -> None:
    with pytest.raises(LocalError, match="cannot be started by this name"):
        batch_command_line(program, [])


def files(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).write_bytes(b"")
    return str(folder)


def test_a_program_is_searched_in_the_child_s_path_with_its_extensions(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    files(one, "npx", "npx.ps1", "npx.CMD")
    files(other, "npx.EXE", "uvx.EXE")
    env = {"Path": f"{one}{os.pathsep}{other}", "pathext": ".EXE;.CMD"}
    assert find_program("npx", env, None) == str(one / "npx.CMD")
    assert find_program("uvx.EXE", env, None) == str(other / "uvx.EXE")
    assert find_program(str(other / "npx"), env, None) == str(other / "npx.EXE")
    assert find_program("nothing", env, None) is None
    assert find_program(os.path.join("other", "npx"), env, str(tmp_path)) == str(tmp_path / "other/npx.EXE")


@pytest.mark.parametrize("name", ["npx.CMD", "npx", "run.bat", "run.bat. ", "run"])
def test_batch_files_alone_are_run_by_cmd(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTEMROOT", "D:\\Windows")
    env = {"PATH": files(tmp_path, "npx.CMD", "run.bat", "node.EXE"), "PATHEXT": ".EXE;.CMD;.bat"}
    line, program = popen_arguments((name, "-y"), env, None)
    file = tmp_path / ("npx.CMD" if "npx" in name else "run.bat")
    assert line == f'cmd.exe /e:ON /v:OFF /d /c ""{file}" -y"'
    assert program == "D:\\Windows\\System32\\cmd.exe"
    assert popen_arguments(("node", "a b"), env, None) == ([str(tmp_path / "node.EXE"), "a b"], None)
    assert popen_arguments(("nothing", "a b"), env, None) == (["nothing", "a b"], None)


@pytest.mark.parametrize("name", ["nothing.cmd", "nothing.BAT", "nothing.bat. ."])
def test_windows_is_not_left_to_find_a_batch_file(name: str) -> None:
    with pytest.raises(FileNotFoundError):
        popen_arguments((name, '"&calc'), {"PATH": ""}, None)
