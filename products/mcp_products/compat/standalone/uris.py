"""URI templates in the dialect of FastMCP: `{x}` is a segment, `{x*}` several, `{?x,y}` and `{&x*}` are parameters.

The names of variables become those of parameters: `{user-id}` is `user_id`.
"""

from __future__ import annotations

import inspect
import re
import string
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote

from mcp_runtime.protocol.models import is_list

_EXPRESSION: Final = re.compile(r"\{([?&]?)([^{}]*)\}")
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "-._~:/?#&=")

_KINDS: Final[dict[Any, str]] = {
    inspect.Parameter.VAR_POSITIONAL: "*args",
    inspect.Parameter.VAR_KEYWORD: "**kwargs",
    inspect.Parameter.POSITIONAL_ONLY: "positional-only parameters",
}


def parameter_name(name: str) -> str:
    """Return the name of the parameter of a variable."""
    key = name.rstrip("*").replace("-", "_")
    return f"_{key}" if key[:1].isdigit() else key


def _query_variables(template: str) -> Iterator[str]:
    for match in _EXPRESSION.finditer(template):
        if match[1]:
            yield from (name.strip() for name in match[2].split(","))


def extract_query_params(uri_template: str) -> set[str]:
    """Return the names of the parameters of the query."""
    return {parameter_name(name) for name in _query_variables(uri_template)}


def extract_exploded_query_params(uri_template: str) -> set[str]:
    """Return the names of those that a URI may repeat, as `{?tags*}` says."""
    return {parameter_name(name) for name in _query_variables(uri_template) if name.endswith("*")}


def _has_written_query(template: str) -> bool:
    return "?" in _EXPRESSION.sub("", template)


def _literal(text: str) -> str:
    """Return the pattern of a text, whose characters a URI may have percent-encoded."""
    return "".join(re.escape(char) if char in _PLAIN else f"(?:{re.escape(char)}|(?i:{quote(char)}))" for char in text)


@lru_cache(4_096)  # Templates of a proxied server come from it.
def build_regex(template: str) -> re.Pattern[str] | None:
    """Return the pattern of the path of a template, with a group for each parameter; None if two have one name."""
    pattern, end = "", 0
    for match in _EXPRESSION.finditer(template):
        pattern += _literal(template[end : match.start()])
        end = match.end()
        if match[1]:
            continue
        values = "[^?#]+" if match[2].endswith("*") else "[^/?#]+"
        if _has_written_query(template[: match.start()]):
            values = "[^&#]*"
        pattern += f"(?P<{parameter_name(match[2])}>{values})"
    try:
        return re.compile(f"{pattern}{_literal(template[end:])}\\Z", re.DOTALL)
    except re.error:
        return None


def match_uri_template(
    uri: str, uri_template: str, list_params: Collection[str] = ()
) -> dict[str, str | list[str]] | None:
    """Return the values of a URI by the names of parameters; None if it does not match.

    Args:
        uri: The URI.
        uri_template: The template.
        list_params: The parameters of the query whose value is a list with commas.
    """
    pattern = build_regex(uri_template)
    if "#" not in uri_template:
        uri = uri.partition("#")[0]
    path, _, query = (uri, "", "") if _has_written_query(uri_template) else uri.partition("?")
    match = None if pattern is None else pattern.match(path)
    if match is None:
        return None
    values: dict[str, str | list[str]] = {name: unquote(text) for name, text in match.groupdict().items()}
    given = parse_qs(query.replace("%2C", "%252C"), keep_blank_values=True)  # Only a written comma separates items.
    for variable in _query_variables(uri_template):
        name, found = parameter_name(variable), given.get(variable.rstrip("*"))
        if found is not None and name not in values:
            items = found if variable.endswith("*") else found[0].split(",") if name in list_params else found[:1]
            items = [item.replace("%2C", ",") for item in items]
            values[name] = items if variable.endswith("*") or name in list_params else items[0]
    return values


def expand_uri_template(uri_template: str, params: Mapping[str, Any]) -> str:
    """Return the URI with these values; a parameter of the query without a value is left out."""
    given = {parameter_name(name): value for name, value in params.items() if value is not None}
    has_query = _has_written_query(uri_template)

    def expand(match: re.Match[str]) -> str:
        nonlocal has_query
        if not match[1]:
            name = parameter_name(match[2])
            return quote(str(given[name]), safe="/" if match[2].endswith("*") else "") if name in given else match[0]
        pairs: list[str] = []
        for variable in (name.strip() for name in match[2].split(",")):
            value = given.get(parameter_name(variable))
            if value is None:
                continue
            items = [quote(str(item), safe="") for item in (value if is_list(value) else [value])]
            items = items if variable.endswith("*") else [",".join(items)]
            pairs += [f"{variable.rstrip('*')}={item}" for item in items]
        start, has_query = "&" if has_query else "?", has_query or bool(pairs)
        return start + "&".join(pairs) if pairs else ""

    return _EXPRESSION.sub(expand, uri_template)


# ---- which functions a component can call ---------------------------------------------------------------------------


def check_function(fn: Callable[..., Any], kind: str) -> None:
    """Raise ValueError for a function with parameters that a component cannot fill; `kind` names such components."""
    for parameter in inspect.signature(fn).parameters.values():
        if (found := _KINDS.get(parameter.kind)) is not None:
            raise ValueError(f"Functions with {found} are not supported as {kind}: write standard parameters")


def check_variables(template: str, schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the parameters of the query that are lists with commas.

    Raises ValueError for a template that does not fit the JSON Schema of the parameters of its function.
    """
    if operators := sorted(set(re.findall(r"\{([+#./;])", template))):
        raise ValueError(
            f"RFC 6570 level-3 operators {{{', '.join(operators)}...}} are not supported;"
            " write {?param} or {&param} for the query, and {param} for the path"
        )
    bodies = [match[2] for match in _EXPRESSION.finditer(template) if not match[1]]
    if sets := [body for body in bodies if "," in body]:
        raise ValueError(f"Set expansion syntax like {{{sets[0]}}} is not supported; write {{?a,b}}")
    names: dict[str, str] = {}
    for written in sorted({name.rstrip("*") for name in (*bodies, *_query_variables(template))}):
        if (other := names.setdefault(parameter_name(written), written)) != written:
            name = parameter_name(written)
            raise ValueError(f"URI template parameters {other!r} and {written!r} both normalize to {name!r}")
    if not names:
        raise ValueError("URI template must contain at least one parameter")
    properties: Mapping[str, Any] = schema["properties"]
    required, query = {*schema.get("required", ())}, extract_query_params(template)
    if wrong := query & required:
        raise ValueError(f"Query parameters {wrong} must be optional function parameters with default values")
    if wrong := required - (path := names.keys() - query):
        raise ValueError(f"Required function arguments {wrong} must be a subset of the URI path parameters {path}")
    if wrong := names.keys() - properties.keys():
        raise ValueError(f"URI parameters {wrong} must be a subset of the function arguments: {[*properties]}")
    exploded = extract_exploded_query_params(template)
    kinds = {name: [properties[name], *properties[name].get("anyOf", ())] for name in query}
    lists = {name for name, parts in kinds.items() if any(part.get("type") == "array" for part in parts)}
    if wrong := exploded - lists:
        raise ValueError(f"Query parameters {wrong} with * must accept a list")
    texts = {name for name, parts in kinds.items() if any(part.get("type") == "string" for part in parts)}
    return frozenset(lists - exploded - texts)


# ---- what values may lead to ----------------------------------------------------------------------------------------


class InheritSecurity:
    """Says that a template is checked as its server says."""

    def __repr__(self) -> str:
        return "INHERIT_SECURITY"


INHERIT_SECURITY: Final = InheritSecurity()
