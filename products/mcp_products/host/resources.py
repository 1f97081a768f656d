"""Find a resource or a resource template of a server by its name."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

from mcp_runtime.errors import LocalError, ProtocolViolationError, RemoteJSONRPCError
from mcp_runtime.protocol.jsonrpc import METHOD_NOT_FOUND
from mcp_runtime.protocol.uris import has_traversal, is_same_uri, leaves_directory
from mcp_runtime.usage.keywords import nearest
from mcp_runtime.usage.rules import TEXT, check_values

# Expand URI templates (RFC 6570) so that no value leaves its part of the URI.

_EXPRESSION: Final = re.compile(r"\{([+#./;?&]?)([^{}]*)\}")
_VARIABLE: Final = re.compile(r"([A-Za-z0-9_.%]+)(?::([1-9]\d{0,3})|(\*))?")
_RESERVED: Final = ":/?#[]@!$&'()*+,;="
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_MAX_REMEDY: Final = 300  # Characters.


class _Operator(NamedTuple):
    first: str
    separator: str
    named: bool
    if_empty: str
    allowed: str


_OPERATORS: Final = {
    "": _Operator("", ",", False, "", ""),
    "+": _Operator("", ",", False, "", _RESERVED),
    "#": _Operator("#", ",", False, "", _RESERVED),
    ".": _Operator(".", ".", False, "", ""),
    "/": _Operator("/", "/", False, "", ""),
    ";": _Operator(";", ";", True, "", ""),
    "?": _Operator("?", "&", True, "=", ""),
    "&": _Operator("&", "&", True, "=", ""),
}


def variables_of(template: str) -> list[str]:
    """Return the names of the variables of a template. Raises LocalError for an expression that RFC 6570 lacks."""
    names: dict[str, None] = {}
    for _, inner in _EXPRESSION.findall(template):
        for text in inner.split(","):
            if (variable := _VARIABLE.fullmatch(text)) is None:
                raise LocalError(f"the URI template {template!r} has the expression {text!r}, which RFC 6570 lacks")
            names[variable[1]] = None
    return [*names]


def expand(template: str, variables: Mapping[str, Any]) -> str:
    """Return the URI of a template.

    A value is text, a number, or a list or a dict of these. Values are percent-encoded; only those of `{+name}` and
    `{#name}` may have reserved characters, such as slashes. Parts of a query, a fragment or of path parameters may be
    absent; other variables are required.

    Args:
        template: The template, such as "notes://{user}/{+path}{?page}".
        variables: The values by name.

    Raises LocalError for a missing or unknown variable, for a value of another type, and for a value that would leave
    its part of the URI: `..`, a control character, or an absolute path or another host where slashes are allowed.
    """
    names = variables_of(template)
    for name in variables:
        if name not in names:
            remedy = nearest(name, names, "variables") if names else "it has none"
            raise LocalError(f"the URI template {template!r} has no variable {name!r}; {remedy}")

    def replace(match: re.Match[str]) -> str:
        return _expression(template, match[1], match[2], variables)

    uri = _EXPRESSION.sub(replace, template)
    _check_path(template, uri)
    return uri


def _expression(template: str, symbol: str, inner: str, variables: Mapping[str, Any]) -> str:
    operator = _OPERATORS[symbol]
    parts: list[str] = []
    for text in inner.split(","):
        variable = _VARIABLE.fullmatch(text)
        assert variable is not None, "variables_of has read the template"
        name, length, exploded = variable.groups()
        value = variables.get(name)
        if value is None:
            if symbol in ("", "+", "/", "."):
                raise LocalError(f"the URI template {template!r} needs the variable {name!r}")
            continue
        _check_value(template, symbol, name, value, exploded is not None)
        parts += _expanded(operator, name, value, int(length or 0), exploded is not None)
    return operator.first + operator.separator.join(parts) if parts else ""


def _expanded(operator: _Operator, name: str, value: Any, length: int, exploded: bool) -> list[str]:
    """Return the parts that a variable adds to its expression (RFC 6570, section 3.2.1)."""

    def encode(item: object) -> str:
        text = _text(item)
        return quote(text[:length] if length else text, safe="-._~" + operator.allowed)

    def with_name(key: str, text: str) -> str:
        return f"{key}={text}" if text else key + operator.if_empty

    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value).items()
        fields = [(encode(key), encode(item)) for key, item in entries]
        if exploded:
            return [with_name(key, text) if operator.named else f"{key}={text}" for key, text in fields]
        text = ",".join(f"{key},{item}" for key, item in fields)
        return [] if not fields else [with_name(name, text) if operator.named else text]
    if not isinstance(value, str) and isinstance(value, Sequence):
        items = [encode(item) for item in cast("Sequence[object]", value)]
        if exploded:
            return [with_name(name, item) for item in items] if operator.named else items
        return [] if not items else [with_name(name, ",".join(items)) if operator.named else ",".join(items)]
    text = encode(value)
    return [with_name(name, text) if operator.named else text]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _check_value(template: str, symbol: str, name: str, value: Any, exploded: bool) -> None:
    """Raise LocalError for a value that is not of JSON's simple types, or that would leave its part of the URI."""
    items: list[object] = [value]
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        items = [*fields, *fields.values()]
    elif not isinstance(value, str) and isinstance(value, Sequence):
        items = [*cast("Sequence[object]", value)]
    for item in items:
        if not isinstance(item, (str, int, float)):
            raise LocalError(
                f"the variable {name!r} of {template!r} is text, a number, or a list or dict of these, not {item!r:.60}"
            )
        text = _text(item)
        if _CONTROL.search(text):
            raise LocalError(f"the variable {name!r} of {template!r} has a control character: {text!r:.60}")
        if symbol == "+" and ("?" in text or "#" in text or (leaves_directory(text, True) and not has_traversal(text))):
            raise LocalError(
                f"the variable {name!r} of {template!r} is a relative path without query and fragment, not {text!r:.60}"
            )
        # The rule of servers of this package: what is sent is read.
        spans = symbol == "+" or (exploded and symbol in ("", "/"))
        if symbol in ("", "+", "/", ".") and text and leaves_directory(text, spans):
            raise LocalError(f"the variable {name!r} of {template!r} leaves its directory: {text!r:.60}")


def _check_path(template: str, uri: str) -> None:
    """Raise LocalError if values make a segment `..` together, such as "." and "."."""
    if has_traversal(re.split(r"[?#]", uri, maxsplit=1)[0]) and not has_traversal(_EXPRESSION.sub("x", template)):
        raise LocalError(f"the values leave the directory of the URI template {template!r}")


async def uri_of(
    name: str,
    variables: Mapping[str, Any],
    resources: Callable[[], AsyncIterator[Any]],
    templates: Callable[[], AsyncIterator[Any]],
) -> str:
    """Return the URI of the resource, or of the resource template, with this name.

    Args:
        name: The name, the title or the URI of a resource, or the name, the title or the text of a template.
        variables: The values of the template's variables.
        resources: Returns an iterator over the resources of the server.
        templates: Returns an iterator over the resource templates of the server.

    Raises LocalError if there is none or more than one, if a resource gets variables, and for wrong variables.
    """
    check_values("get_resource", {"name": name}, {"name": TEXT})
    listed = [(item, item.uri) for item in await _items(resources)]
    patterns = [(item, item.uri_template) for item in await _items(templates)]
    uris = _matching(name, listed)
    matching = _matching(name, patterns)
    if uris and not variables and (not matching or len(uris) == 1):
        return _only(name, uris)
    if matching:
        return expand(_only(name, matching), variables)
    if uris:
        raise LocalError(f"get_resource(): {name!r} is a resource without variables: leave out {', '.join(variables)}")
    names = list(dict.fromkeys(item.name for item, _ in (*listed, *patterns)))
    remedy = nearest(name, names, "resources") if names else "it has none"
    if len(remedy) > _MAX_REMEDY:
        remedy = f"it has {len(names)} others"
    raise LocalError(f"get_resource(): the server has no resource {name!r}; {remedy}")


def _matching(name: str, items: list[tuple[Any, str]]) -> list[str]:
    """Return the URIs of the items with this name; without one, of those with this title or URI."""
    by_name = [uri for item, uri in items if item.name == name]
    others = [uri for item, uri in items if name == getattr(item, "title", None) or _is_uri(name, uri)]
    return list(dict.fromkeys(by_name or others))


def _is_uri(name: str, uri: str) -> bool:
    return name == uri or (":" in name and is_same_uri(name, uri))


def _only(name: str, uris: list[str]) -> str:
    if len(uris) > 1:
        raise LocalError(f"get_resource(): {name!r} is the name of {', '.join(uris)}: write read_resource(uri)")
    return uris[0]


async def _items(iterator: Callable[[], AsyncIterator[Any]]) -> list[Any]:
    """Return the items of a list; none if the server does not have that list."""
    try:
        return [item async for item in iterator()]
    except ProtocolViolationError:
        return []
    except RemoteJSONRPCError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        return []
