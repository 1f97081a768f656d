"""Generated modules have the imports that they use and the layout of black, which ruff gives to all of them at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import black
import pytest
from black.mode import TargetVersion
from support.project import ROOT

from mcp_codegen.errors import CodegenError
from mcp_codegen.render.source import format_module, format_modules, format_text
from mcp_generated import REVISIONS

UNFORMATTED = "class A :\n    x = 'a'\ndef f( b ):\n        return ( b )\n"
FORMATTED = 'class A:\n    x = "a"\n\n\ndef f(b):\n    return b\n'
MODE = black.Mode(line_length=120, target_versions={TargetVersion.PY311})


def test_all_modules_are_formatted_together_and_other_files_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    run = subprocess.run

    def counted(words: Any, **options: Any) -> Any:
        started.append(words)
        return run(words, **options)

    monkeypatch.setattr(subprocess, "run", counted)
    files = {Path("a.py"): UNFORMATTED, Path("py.typed"): "", Path("x.txt"): "a  =b", Path("b.py"): "x=1\n"}
    assert format_modules(files, Path()) == {**files, Path("a.py"): FORMATTED, Path("b.py"): "x = 1\n"}
    assert len(started) == 2  # For imports, and for the layout.


def test_texts_of_any_writing_stay_what_they_are() -> None:
    text = 'A = "\u2028 \x0c é 😀"\nB = "\\r\\n"\n'
    assert format_text(text, "a.py") == text


def test_the_layout_does_not_depend_on_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on a configuration of ruff there, nor on names that are ignored."""
    (tmp_path / "ruff.toml").write_text('line-length = 20\nexclude = ["*"]\n[format]\nquote-style = "single"\n')
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", os.fspath(tmp_path))
    assert format_text(UNFORMATTED, "a.py") == FORMATTED
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("mcp-codegen-")]


def test_what_is_not_python_is_an_error_that_says_where() -> None:
    files = {Path("out/a.py"): "x = 1\n", Path("out/client.py"): "\n\ndef\n"}
    with pytest.raises(CodegenError, match=r"^client.py: what the templates give is not Python: .+ \(line 3\)$"):
        format_modules(files, Path("out"))
    with pytest.raises(CodegenError, match=r"^the wrappers: what the templates give is not Python: .+ \(line 1\)$"):
        format_module("def\n", "the wrappers")


@pytest.mark.skipif(sys.platform == "win32", reason="no program of this name can be written there")
def test_without_ruff_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho No module named ruff >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("mcp_codegen.render.source._RUFF", (str(program),))
    with pytest.raises(CodegenError, match="No module named ruff"):
        format_text(UNFORMATTED, "a.py")


IMPORTS = """from b import Z, a
from typing import Any, Final, TypedDict
import sys
from . import types as t, methods
from __future__ import annotations
from .types import *
from .types import Kept as Kept
import json

if Any:
    from c import unused, used

A: Final = Z(t, sys, a, used)
"""
SORTED = """from __future__ import annotations

import sys
from typing import Any, Final

from b import Z, a

from . import types as t
from .types import *
from .types import Kept as Kept

if Any:
    from c import used

A: Final = Z(t, sys, a, used)
"""


def test_imports_that_are_not_used_go_and_the_others_stand_in_their_groups() -> None:
    assert format_module(IMPORTS, "a.py") == SORTED
    assert "unused" in format_text(IMPORTS, "an index")


@pytest.mark.exhaustive
@pytest.mark.parametrize("package", ["others", *sorted(REVISIONS.values())])
def test_black_writes_each_generated_module_in_the_same_way(package: str) -> None:
    generated = ROOT / "generated" / "mcp_generated"
    modules = sorted(generated.rglob("*.py") if package == "others" else (generated / package).rglob("*.py"))
    if package == "others":
        modules = [module for module in modules if module.relative_to(generated).parts[0] not in REVISIONS.values()]
    assert modules
    for module in modules:
        text = module.read_text(encoding="utf-8")
        assert format_text(text, module.name) == text
        assert black.format_str(text, mode=MODE) == text, module
