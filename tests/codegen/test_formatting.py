"""Generated modules have the layout of black, which one run of ruff gives to all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import black
import pytest
from black.mode import TargetVersion

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.errors import CodegenError
from mcp_codegen.generate import module_texts
from mcp_codegen.paths import data_path
from mcp_codegen.render.source import format_modules, format_text

UNFORMATTED = "class A :\n    x = 'a'\ndef f( b ):\n        return ( b )\n"
FORMATTED = 'class A:\n    x = "a"\n\n\ndef f(b):\n    return b\n'
MODE = black.Mode(line_length=120, target_versions={TargetVersion.PY311})


def test_all_modules_are_formatted_by_one_process_and_other_files_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    run = subprocess.run

    def counted(words: Any, **options: Any) -> Any:
        started.append(words)
        return run(words, **options)

    monkeypatch.setattr(subprocess, "run", counted)
    files = {Path("a.py"): UNFORMATTED, Path("py.typed"): "", Path("x.txt"): "a  =b", Path("b.py"): "x=1\n"}
    assert format_modules(files) == {**files, Path("a.py"): FORMATTED, Path("b.py"): "x = 1\n"}
    assert len(started) == 1


def test_texts_of_any_writing_stay_what_they_are() -> None:
    text = 'A = "\u2028 \x0c é 😀"\nB = "\\r\\n"\n'
    assert format_text(text) == text


def test_the_layout_does_not_depend_on_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on a configuration of ruff there, nor on names that are ignored."""
    (tmp_path / "ruff.toml").write_text('line-length = 20\nexclude = ["*"]\n[format]\nquote-style = "single"\n')
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", os.fspath(tmp_path))
    assert format_text(UNFORMATTED) == FORMATTED
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("mcp-codegen-")]


def test_what_is_not_python_is_an_error_that_says_where() -> None:
    with pytest.raises(CodegenError, match=r"ruff cannot format what the templates give: .*1:4"):
        format_text("def\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no program of this name can be written there")
def test_without_ruff_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho No module named ruff >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr("mcp_codegen.render.source._FORMAT", (str(program),))
    with pytest.raises(CodegenError, match="No module named ruff"):
        format_text(UNFORMATTED)


@pytest.mark.long
def test_black_writes_each_generated_module_in_the_same_way() -> None:
    schemas = SchemaCatalog(data_path("schema"))
    texts = module_texts(schemas, (data_path("templates"),), Path("bindings"), list(schemas.pins))
    formatted = format_modules(texts)
    modules = [path for path in texts if path.suffix == ".py"]
    assert len(modules) > 100
    assert [path for path in modules if formatted[path] != black.format_str(texts[path], mode=MODE)] == []
