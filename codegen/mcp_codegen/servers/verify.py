"""The check that a module of wrappers has nothing but types and typed calls."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from ..errors import CodegenError

_CALLS: Final = frozenset({"Field", "TypeAliasType", "const"})
_METHODS: Final = frozenset({"_call", "_get", "_read", "_structured_content"})
_STATEMENTS: Final = (ast.Expr, ast.Return, ast.Assign, ast.AnnAssign)
_TOP_LEVEL: Final = (ast.ImportFrom, ast.ClassDef, ast.Assign, ast.Expr)


def verify_wrappers_module(source: str, types: set[str], endpoints: Mapping[str, set[str]]) -> None:
    """Raise CodegenError unless the module has exactly these classes, with these functions, which only make calls."""
    tree = ast.parse(source)
    expected = {f"{sync}{endpoint}": names for endpoint, names in endpoints.items() if names for sync in ("", "Sync")}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if set(classes) != types | set(expected):
        raise _error(f"the classes {sorted(set(classes) ^ (types | set(expected)))} are missing or unexpected")
    for line in tree.body:
        if not isinstance(line, _TOP_LEVEL) or (
            isinstance(line, ast.Expr) and not isinstance(line.value, ast.Constant)
        ):
            raise _error(f"a {type(line).__name__} at line {line.lineno}")
    for name, names in expected.items():
        functions = [node for node in classes[name].body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        if {function.name for function in functions} != names or len(functions) != len(names):
            raise _error(f"{name} has other functions than {sorted(names)}")
        for function in functions:
            _check_function(function)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not _is_harmless(node):
            raise _error(f"a call at line {node.lineno}")
        if isinstance(node, (ast.Lambda, ast.Await)) and not (isinstance(node, ast.Await) and _is_call(node.value)):
            raise _error(f"a {type(node).__name__} at line {node.lineno}")


def _check_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if function.decorator_list:
        raise _error(f"a decorator at line {function.lineno}")
    for statement in function.body:
        if not isinstance(statement, _STATEMENTS):
            raise _error(f"a {type(statement).__name__} at line {statement.lineno}")


def _is_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _is_harmless(node)


def _is_harmless(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr in _METHODS and isinstance(function.value, ast.Name) and function.value.id == "self"
    return isinstance(function, ast.Name) and function.id in _CALLS


def _error(text: str) -> CodegenError:
    return CodegenError(f"the generated wrappers have unexpected code: {text}; please report this")
