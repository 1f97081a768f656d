"""Command lines in one string: what a person writes for the shell of a system is read as that shell reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mcp_codegen.testkit.processes import joined_command, split_command
from mcp_products.relay.upstream.target import split_command as split_target

PATH = "C:\\Program Files\\Müller\\py.exe"
FORMS = {
    "C:\\py\\py.exe C:\\servers\\new.py": ["C:\\py\\py.exe", "C:\\servers\\new.py"],
    f'"{PATH}" -m server': [PATH, "-m", "server"],
    "O'Brien\\server.exe --name \"it's\"": ["O'Brien\\server.exe", "--name", "it's"],
    'server.exe "" x': ["server.exe", "", "x"],
}


@pytest.mark.parametrize("split", [split_command, split_target])
@pytest.mark.parametrize("text", FORMS)
def test_a_backslash_is_a_part_of_a_path_on_windows(text: str, split: Callable[..., list[str]]) -> None:
    assert split(text, windows=True) == FORMS[text]


@pytest.mark.parametrize("split", [split_command, split_target])
def test_elsewhere_words_are_those_of_a_shell(split: Callable[..., list[str]]) -> None:
    assert split("a\\ b 'c d' \"e\"", windows=False) == ["a b", "c d", "e"]
    with pytest.raises(ValueError, match="No closing quotation"):
        split('"a', windows=False)


@pytest.mark.parametrize("windows", [True, False])
def test_what_is_shown_is_read_back(windows: bool) -> None:
    words = [PATH if windows else "/a b/py", "-m", "", "two words"]
    assert split_command(joined_command(words, windows=windows), windows=windows) == words


def test_a_path_of_windows_is_shown_as_cmd_reads_it() -> None:
    assert joined_command(["C:\\py\\py.exe"], windows=True) == "C:\\py\\py.exe"
    assert joined_command([PATH, "x"], windows=True) == f'"{PATH}" x'
