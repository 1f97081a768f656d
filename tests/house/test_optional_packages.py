"""An optional package that is missing is told from one that is installed and cannot be loaded."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from support.source_tree import python_files, relative, syntax_tree

from mcp_products.json_schema import validator

# Where a name of an installed package, or its source, may be missing.
NAMES_ARE_LOOKED_FOR = {
    "products/mcp_products/models/described_fields.py",
    "runtime/mcp_runtime/protocol/wire_models.py",
}
# Commands that show the error as it is.
SHOWN = re.compile(r"as error$")


def handlers_of_import_errors(path: Path) -> list[str]:
    """Return the lines that catch ImportError and do not show it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    handlers = [node for node in ast.walk(syntax_tree(path)) if isinstance(node, ast.ExceptHandler) and node.type]
    caught = [
        node
        for node in handlers
        if any(isinstance(name, ast.Name) and name.id == "ImportError" for name in ast.walk(node.type or node))
    ]
    return [
        f"{relative(path)}:{node.lineno}" for node in caught if not SHOWN.search(lines[node.lineno - 1].rstrip(": "))
    ]


@pytest.mark.parametrize("folder", ["runtime", "products", "codegen"])
def test_no_message_says_that_a_package_is_missing_when_it_cannot_be_loaded(folder: str) -> None:
    """A package of C or Rust that lacks a library of the system raises ImportError: "DLL load failed" on Windows."""
    places = [place for path in python_files(folder) for place in handlers_of_import_errors(path)]
    assert [place for place in places if place.partition(":")[0] not in NAMES_ARE_LOOKED_FOR] == []


def test_a_package_that_cannot_be_loaded_is_shown_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jsonschema_rs.py").write_text("raise ImportError('DLL load failed while importing jsonschema_rs')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jsonschema_rs", raising=False)
    with pytest.raises(ImportError, match="^DLL load failed"):
        validator.CompiledSchema({"type": "string", "pattern": "[loaded anew]"})
