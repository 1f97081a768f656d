"""The syntax tree of a schema.ts, from the parser of tree-sitter."""

from __future__ import annotations

from typing import Final, NoReturn

import tree_sitter
import tree_sitter_typescript
from tree_sitter import Node

from ..errors import SchemaError

_LANGUAGE: Final = tree_sitter.Language(tree_sitter_typescript.language_typescript())
_STEPS: Final = 20  # Steps that the parser may take for any text, however small.
_BYTES_A_STEP: Final = 10  # It may take one more for each 10 bytes: valid texts have 14 (semicolons) to 800.
_CHUNK: Final = 8192


def syntax_tree(text: str, source: str) -> Node:
    """Return the root of the syntax tree. Raises SchemaError, with `source` and the line, if the text is no valid
    TypeScript."""
    data = text.encode()
    root = _checked(data, source)
    if root.has_error:
        _refuse(source, _first_error(root))
    return tree_sitter.Parser(_LANGUAGE).parse(data).root_node  # The nodes of this one have their texts.


def _checked(data: bytes, source: str) -> Node:
    """Return the root of the syntax tree. Raises SchemaError for a text that the parser would try to mend for minutes,
    as happens with a few hundred bytes.

    The parser can be stopped only while a function gives it the text, and then the nodes have no `text`. Releases of
    tree-sitter before 0.26.1 crash when they are stopped.
    """
    steps = reached = 0

    def takes_too_long(offset: int, has_error: bool) -> bool:
        nonlocal steps, reached
        steps, reached = steps + 1, offset
        return steps > _STEPS + len(data) // _BYTES_A_STEP

    try:
        parser = tree_sitter.Parser(_LANGUAGE)
        return parser.parse(lambda at, _: data[at : at + _CHUNK], progress_callback=takes_too_long).root_node
    except ValueError:
        _refuse(source, data.count(b"\n", 0, reached) + 1)


def _refuse(source: str, line: int) -> NoReturn:
    raise SchemaError(
        f"{source}:{line}: is not valid TypeScript; correct the syntax of this line", at=f"line {line}"
    ) from None


def _first_error(node: Node) -> int:
    """Return the line of the first syntax error below `node`."""
    while True:
        below = next((child for child in node.children if child.is_error or child.is_missing or child.has_error), None)
        if below is None or below.is_error or below.is_missing:
            return (below or node).start_point.row + 1
        node = below
