"""Check that a types.py has exactly the types of the revision.

Schema text is untrusted. The tokens of `types_py` keep it out of the syntax; this looks at the result and makes sure.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import Final

from ..errors import CodegenError
from ..model.ir import Revision
from .source import parsed

_CALLS: Final = frozenset({"ConfigDict", "Field", "Matches", "TypeAliasType", "const", "deprecated", "default_to"})
_ANNOTATION_NAMES: Final = frozenset({"Any", "Int", "Literal", "Number", "bool", "dict", "list", "str"})
_NODES: Final = (
    *(
        ast.Attribute,
        ast.Module,
        ast.ImportFrom,
        ast.alias,
        ast.ClassDef,
        ast.AnnAssign,
        ast.Assign,
        ast.Expr,
        ast.Pass,
        ast.Call,
    ),
    *(ast.keyword, ast.Name, ast.Load, ast.Store, ast.Constant, ast.Subscript, ast.Tuple, ast.BinOp, ast.BitOr),
    *(ast.UnaryOp, ast.USub, ast.List),
)


def verify_types_module(source: str, revision: Revision, own: Collection[str] | None = None) -> None:
    """Raise CodegenError unless the module declares exactly the types and fields of the revision, and does nothing.

    If `own` types are named, it declares only those.
    """
    names = frozenset(revision.types if own is None else own)
    tree = parsed(source)
    nodes = list(ast.walk(tree))
    for quoted in _forward_references(nodes):
        if stray := _names(quoted) - set(revision.types) - _ANNOTATION_NAMES:
            raise _error(revision, f"a quoted annotation with {sorted(stray)}")
    for node in nodes:
        if not isinstance(node, _NODES) or (isinstance(node, ast.Call) and not _is_harmless(node)):
            raise _error(revision, f"a {type(node).__name__} at line {getattr(node, 'lineno', 0)}")
    actual = {node.name: _fields(node) for node in tree.body if isinstance(node, ast.ClassDef)}
    expected = {
        definition.name: {field.name for field in revision.own_fields(definition)}
        for definition in revision.objects()
        if definition.name in names
    }
    if actual != expected:
        name = min(name for name in actual.keys() | expected.keys() if actual.get(name) != expected.get(name))
        raise _error(revision, f"{name} with {actual.get(name)} instead of {expected.get(name)}")
    declared = set(actual) | {_target(node) for node in tree.body if isinstance(node, (ast.Assign, ast.AnnAssign))}
    if surplus := declared ^ names:
        raise _error(revision, f"the names {sorted(surplus)} on one side only")


def _forward_references(nodes: list[ast.AST]) -> Iterator[str]:
    """Return the strings that are evaluated as annotations: those of fields and type aliases that are no literal
    values."""
    annotations = [node.annotation for node in nodes if isinstance(node, ast.AnnAssign)]
    calls = (node for node in nodes if isinstance(node, ast.Call) and _is_name(node.func, "TypeAliasType"))
    for annotation in annotations + [call.args[1] for call in calls]:
        inner = list(ast.walk(annotation))
        values = {
            id(part)
            for node in inner
            if isinstance(node, ast.Call) or (isinstance(node, ast.Subscript) and _is_name(node.value, "Literal"))
            for part in ast.walk(node)
        }
        strings = (node for node in inner if isinstance(node, ast.Constant) and id(node) not in values)
        yield from (node.value for node in strings if isinstance(node.value, str))


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _names(quoted: str) -> set[str]:
    """Return the names in a quoted annotation; its whole text if it is no type expression."""
    try:
        nodes = list(ast.walk(ast.parse(quoted, mode="eval")))
    except SyntaxError:
        return {quoted}
    if not all(isinstance(node, (ast.Expression, *_NODES)) and not isinstance(node, ast.Call) for node in nodes):
        return {quoted}
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


def _is_harmless(call: ast.Call) -> bool:
    """Whether it is one of the few calls a types.py makes."""
    return isinstance(call.func, ast.Name) and call.func.id in _CALLS


def _fields(node: ast.ClassDef) -> set[str]:
    return {_target(line) for line in node.body if isinstance(line, ast.AnnAssign)}


def _target(node: ast.Assign | ast.AnnAssign) -> str:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return target.id if isinstance(target, ast.Name) else ast.unparse(target)


def _error(revision: Revision, what: str) -> CodegenError:
    return CodegenError(f"{revision.id}: types.py would hold what the schema did not ask for: {what}")
