"""The text of a module of wrappers goes in, nothing comes out, unless it holds anything but types and typed calls."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from ..errors import CodegenError

_CALLS: Final = frozenset({"Field", "TypeAliasType", "const"})
_METHODS: Final = frozenset({"_call", "_get", "_read", "_structured_content"})
_STATEMENTS: Final = (ast.Expr, ast.Return, ast.Assign, ast.AnnAssign)
_TOP: Final = (ast.ImportFrom, ast.ClassDef, ast.Assign, ast.Expr)


def verify_wrappers_module(source: str, types: set[str], endpoints: Mapping[str, set[str]]) -> None:
    """Raise CodegenError unless there are these classes alone, with these functions, that do nothing but call."""
    tree = ast.parse(source)
    wanted = {f"{sync}{face}": names for face, names in endpoints.items() if names for sync in ("", "Sync")}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if set(classes) != types | set(wanted):
        raise _fault(f"the classes {sorted(set(classes) ^ (types | set(wanted)))} on one side only")
    for line in tree.body:
        if not isinstance(line, _TOP) or (isinstance(line, ast.Expr) and not isinstance(line.value, ast.Constant)):
            raise _fault(f"a {type(line).__name__} at line {line.lineno}")
    for name, names in wanted.items():
        functions = [each for each in classes[name].body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
        if {each.name for each in functions} != names or len(functions) != len(names):
            raise _fault(f"{name} with other functions than {sorted(names)}")
        for function in functions:
            _check_function(function)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not _is_harmless(node):
            raise _fault(f"a call at line {node.lineno}")
        if isinstance(node, (ast.Lambda, ast.Await)) and not (isinstance(node, ast.Await) and _is_call(node.value)):
            raise _fault(f"a {type(node).__name__} at line {node.lineno}")


def _check_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    if function.decorator_list:
        raise _fault(f"a decorator at line {function.lineno}")
    for statement in function.body:
        if not isinstance(statement, _STATEMENTS):
            raise _fault(f"a {type(statement).__name__} at line {statement.lineno}")


def _is_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _is_harmless(node)


def _is_harmless(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr in _METHODS and isinstance(function.value, ast.Name) and function.value.id == "self"
    return isinstance(function, ast.Name) and function.id in _CALLS


def _fault(what: str) -> CodegenError:
    return CodegenError(f"the wrappers would hold what no server can ask for: {what}")
