"""Black formats each generated module once: here, or one half of them in a second process."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import black
import pytest

from mcp_codegen.cache import VARIABLE
from mcp_codegen.helper_process import HelperProcess
from mcp_codegen.render.source import format_modules, format_text

UNFORMATTED = "class A :\n    x = 'a'\ndef f( b ):\n        return ( b )\n"
FORMATTED = 'class A:\n    x = "a"\n\n\ndef f(b):\n    return b\n'
# As many modules as two processes format, with comments that take no time.
COMMENT = "# A comment.\n"
MANY = {Path(f"{number}.py"): f"{UNFORMATTED}\n\n# {number}\n{COMMENT * (500 * number)}" for number in range(1, 10)}
HELPER = ("-m", "mcp_codegen.render.written_modules")
MARKING = """
from mcp_codegen.helper_process import answer_parent
answer_parent({"format": lambda text: "marked"})
"""
ENDING = """
import sys
from mcp_codegen.helper_process import answer_parent
from mcp_codegen.render.source import format_text
answer_parent({"format": lambda text: sys.exit(1) if "# 7\\n" in text else format_text(text)})
"""


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The modules that black formats in this process."""
    counted: Counter[str] = Counter()
    original = black.format_str

    def count(text: str, *, mode: Any) -> str:
        counted[text] += 1
        return original(text, mode=mode)

    monkeypatch.setattr(black, "format_str", count)
    return counted


def test_modules_are_formatted_once_and_other_files_not_at_all(calls: Counter[str]) -> None:
    files = {Path("a.py"): UNFORMATTED, Path("py.typed"): "", Path("b.py"): "x=1\n"}
    assert format_modules(files) == {Path("a.py"): FORMATTED, Path("py.typed"): "", Path("b.py"): "x = 1\n"}
    assert calls == Counter([UNFORMATTED, "x=1\n"])


def test_modules_of_the_cache_are_not_formatted_again(
    calls: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    first = format_modules({Path("a.py"): UNFORMATTED})
    assert format_modules({Path("a.py"): UNFORMATTED, Path("b.py"): "x=1\n"}) == first | {Path("b.py"): "x = 1\n"}
    assert calls == Counter([UNFORMATTED, "x=1\n"])


@pytest.mark.long
def test_a_second_process_formats_about_half_of_many_modules(calls: Counter[str]) -> None:
    with HelperProcess("-c", MARKING) as helper:
        formatted = format_modules(MANY, helper)
    marked = {path for path, text in formatted.items() if text == "marked"}
    assert calls == Counter(text for path, text in MANY.items() if path not in marked)
    assert {path: text for path, text in formatted.items() if path not in marked} == {
        path: format_text(text) for path, text in MANY.items() if path not in marked
    }
    lengths = [sum(len(MANY[path]) for path in paths) for paths in (marked, MANY.keys() - marked)]
    assert 0.8 < lengths[0] / lengths[1] < 1.25


@pytest.mark.edges("fails")
@pytest.mark.long
@pytest.mark.parametrize(
    "words", [HELPER, ("-c", ENDING), ("-c", "raise SystemExit(3)")], ids=["answers", "ends", "fails"]
)
def test_what_two_processes_format_is_what_one_formats(words: tuple[str, ...], calls: Counter[str]) -> None:
    with HelperProcess(*words) as helper:
        formatted = format_modules(MANY, helper)
    here = sum(calls.values())
    assert formatted == format_modules(MANY) and list(formatted) == list(MANY)
    assert (here < len(MANY)) == (words != ("-c", "raise SystemExit(3)"))


def test_few_modules_are_formatted_by_one_process(calls: Counter[str]) -> None:
    with HelperProcess("-c", MARKING) as helper:
        assert format_modules({Path("a.py"): UNFORMATTED}, helper) == {Path("a.py"): FORMATTED}
    assert calls == Counter([UNFORMATTED])
