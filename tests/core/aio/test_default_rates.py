"""The rates that hold where nobody has said otherwise stand in one module."""

from __future__ import annotations

import ast

import pytest
from support.source_tree import python_files, relative, syntax_tree

from mcp_runtime.aio import rates


@pytest.mark.long
def test_no_other_module_has_a_rate_of_its_own() -> None:
    written = [
        relative(path)
        for path in python_files("runtime", "products")
        for node in ast.walk(syntax_tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "RateLimit"
        if all(isinstance(value, ast.Constant) for value in (*node.args, *(item.value for item in node.keywords)))
    ]
    defaults = [value for value in vars(rates).values() if isinstance(value, rates.RateLimit)]
    assert written == ["runtime/mcp_runtime/aio/rates.py"] * len(defaults)
    assert len(defaults) == 5
