"""The front matter of SKILL.md: parse the subset of YAML 1.2 that has a JSON form, without tags, anchors and aliases.

Needs PyYAML.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, cast

from mcp_runtime.errors import NotInstalledError

try:
    import yaml
except ModuleNotFoundError:
    raise NotInstalledError("skills need PyYAML: pip install 'mcp-generated[skills]'") from None

MAX_BYTES: Final = 32 * 1024
MAX_DEPTH: Final = 32

_HEAD: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n((?:.{0,%d}?\n)??)---[ \t]*(?:\r?\n|\Z)" % MAX_BYTES, re.DOTALL
)
_NULL: Final = ("", "~", "null", "Null", "NULL")
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,400}|0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NON_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES: Final = {"0o": 8, "0x": 16}


def parse_front_matter(data: bytes) -> dict[str, Any]:
    """Parse the front matter at the start of a file, between two lines of `---`. Raises ValueError if it is invalid."""
    match = _HEAD.match(data)
    if match is None:
        raise ValueError(f"must begin with front matter between two lines of ---, of at most {MAX_BYTES} bytes")
    try:
        node = yaml.compose(match[1].decode("utf-8"), Loader=_Loader)
    except UnicodeDecodeError:
        raise ValueError("has front matter that is not UTF-8") from None
    except yaml.YAMLError as error:
        raise ValueError(f"has front matter that is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("has front matter that is not a mapping")
    return _mapping(node)


class _Loader(yaml.SafeLoader):
    """A loader that composes nodes and leaves scalars as text; they are resolved here, not with the rules of YAML
    1.1."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as the base class declares it
    _level = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("has front matter with an alias, which is not allowed")
        event = cast(object, self.peek_event())  # type: ignore[no-untyped-call]
        if (tag := getattr(event, "tag", None)) is not None:
            raise ValueError(f"has front matter with the tag {tag!r}, which is not allowed")
        self._level += 1
        if self._level > MAX_DEPTH:
            raise ValueError(f"has front matter of more than {MAX_DEPTH} levels")
        node = super().compose_node(parent, index)
        self._level -= 1
        return node


def _mapping(node: yaml.MappingNode) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in node.value:
        name = _value(key)
        if not isinstance(name, str):
            raise ValueError(f"has front matter with a key that is not a string: {name!r}")
        if name in mapping:
            raise ValueError(f"has front matter with the key {name!r} twice")
        mapping[name] = _value(value)
    return mapping


def _value(node: yaml.Node) -> Any:
    """Return the JSON value of a node. Raises ValueError for values without a JSON form."""
    match node:
        case yaml.MappingNode():
            return _mapping(node)
        case yaml.SequenceNode():
            return [_value(item) for item in node.value]
        case yaml.ScalarNode(style=None):
            return _plain_scalar(node.value)
        case _:
            return node.value


def _plain_scalar(text: str) -> Any:
    """Return the value of a plain scalar (YAML 1.2.2, section 10.3.2, core schema: https://yaml.org/spec/1.2.2/)."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text[2:], _BASES[text[:2]]) if text[:2] in _BASES else int(text)
    if _NON_FINITE.fullmatch(text) or (_FLOAT.fullmatch(text) and not math.isfinite(float(text))):
        raise ValueError(f"has front matter with a number that has no JSON form: {text}")
    return float(text) if _FLOAT.fullmatch(text) else text
