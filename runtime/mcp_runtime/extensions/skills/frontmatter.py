"""The bytes of a SKILL.md go in, its front matter comes out as JSON: the JSON subset of YAML 1.2, and nothing that is
built, shared or typed otherwise. Needs PyYAML."""

from __future__ import annotations

import math
import re
from typing import Any, Final, cast

from ...errors import LocalError

try:
    import yaml
except ImportError:
    raise LocalError("skills need PyYAML: pip install 'mcp-codegen[skills]'") from None

MAX_BYTES: Final = 32 * 1024
MAX_DEPTH: Final = 32

_HEAD: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n((?:.{0,%d}?\n)??)---[ \t]*(?:\r?\n|\Z)" % MAX_BYTES, re.DOTALL
)
_NULL: Final = ("", "~", "null", "Null", "NULL")
_BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,400}|0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_BROKEN: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BEYOND: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES: Final = {"0o": 8, "0x": 16}


def parse_front_matter(data: bytes) -> dict[str, Any]:
    """The front matter that stands at the head, between two lines of `---`. Raises ValueError."""
    found = _HEAD.match(data)
    if found is None:
        raise ValueError(f"does not begin with front matter between two lines of ---, of at most {MAX_BYTES} bytes")
    try:
        node = yaml.compose(found[1].decode("utf-8"), Loader=_Loader)
    except UnicodeDecodeError:
        raise ValueError("has front matter that is not UTF-8") from None
    except yaml.YAMLError as fault:
        raise ValueError(f"has front matter that is not YAML: {' '.join(str(fault).split())}") from None
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("has front matter that is no mapping")
    return _mapping(node)


class _Loader(yaml.SafeLoader):
    """Reads nodes, each text as text: what a plain one stands for is decided here, not as in YAML 1.1."""

    yaml_implicit_resolvers: dict[str, Any] = {}
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
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = _value(key)
        if not isinstance(name, str):
            raise ValueError(f"has front matter with a key that is no text: {name!r}")
        if name in found:
            raise ValueError(f"has front matter with the key {name!r} twice")
        found[name] = _value(value)
    return found


def _value(node: yaml.Node) -> Any:
    """What a node stands for. Raises ValueError for what JSON has not."""
    match node:
        case yaml.MappingNode():
            return _mapping(node)
        case yaml.SequenceNode():
            return [_value(each) for each in node.value]
        case yaml.ScalarNode(style=None):
            return _plain(node.value)
        case _:
            return node.value


def _plain(text: str) -> Any:
    """What a text without quotes stands for (YAML 1.2.2, 10.3.2: the core schema)."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _WHOLE.fullmatch(text):
        return int(text[2:], _BASES[text[:2]]) if text[:2] in _BASES else int(text)
    if _BEYOND.fullmatch(text) or (_BROKEN.fullmatch(text) and not math.isfinite(float(text))):
        raise ValueError(f"has front matter with a number that JSON has not: {text}")
    return float(text) if _BROKEN.fullmatch(text) else text
