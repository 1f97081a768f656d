"""Values of parameters as text: the styles of OpenAPI, with all that has a meaning in a URL percent-encoded.

https://spec.openapis.org/oas/latest.html#style-values
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from ...errors import ToolError
from ...protocol.models import is_list, is_object
from ...protocol.paths import has_separator, has_traversal
from .openapi_document import OpenAPIParameter

_RESERVED: Final = (
    ":/?@!$'()*,;"  # Reserved in a query, but without a meaning there. Not `#`, `&`, `=`, `+` and brackets.
)
_DELIMITERS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_COOKIE_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_VALUE: Final = re.compile(r"[!#-+\--:<-\[\]-~]*")
_MAX_LEVELS: Final = 20

EncodedItems = list[tuple[str, str]]


def path_text(parameter: OpenAPIParameter, value: Any) -> str:
    """Return the text of a path parameter. Raises ToolError for a value that would leave its segment."""
    leaves = [*_leaves(value)]
    for text in leaves:
        segments = text.split("/") if parameter.multi_segment or parameter.encodes_slashes else [text]
        inside = all(segments) and not has_traversal(text) and not any(map(has_separator, segments))
        if not inside or any(ord(character) < 32 for character in text):
            raise ToolError(f"the path parameter {parameter.name!r} cannot be {text[:100]!r}: it would leave its path")
    if not leaves:
        raise ToolError(f"the path parameter {parameter.name!r} cannot be empty")
    prefix = {"label": ".", "matrix": ";"}.get(parameter.style, "")
    separator = {"label": ".", "matrix": ";"}.get(parameter.style, ",") if parameter.explode else ","
    safe = "/" if parameter.multi_segment and not parameter.encodes_slashes else ""
    if parameter.style == "matrix":
        return prefix + _matrix(parameter, value, separator)
    return prefix + separator.join(_parts(value, parameter.explode, safe))


def query_items(parameter: OpenAPIParameter, value: Any) -> EncodedItems:
    """Return the encoded names and values of a parameter of a query or a cookie, or of a property of a form."""
    safe = _RESERVED if parameter.allow_reserved and parameter.location == "query" else ""
    name = quote(parameter.name, safe="[]")
    if parameter.style == "deepObject" and (is_object(value) or is_list(value)):
        return [*_deep(name, value, 0)]
    if parameter.explode and is_list(value):
        return [(name, quote(scalar(item), safe=safe)) for item in value]
    if parameter.explode and is_object(value):
        return [(quote(str(key), safe=""), quote(scalar(item), safe=safe)) for key, item in value.items()]
    delimiter = _DELIMITERS.get(parameter.style, ",")
    return [(name, delimiter.join(_parts(value, False, safe)))]


def cookie_items(parameter: OpenAPIParameter, value: Any) -> EncodedItems:
    """Return the names and values of a cookie parameter.

    They are percent-encoded, except in the style `cookie` of OpenAPI 3.2. Raises ToolError for characters that no
    cookie can have then (RFC 6265, section 4.1.1).
    """
    if parameter.style != "cookie":
        return query_items(parameter, value)
    if is_object(value):
        items = [(str(key), scalar(item)) for key, item in value.items()]
    else:
        items = [(parameter.name, scalar(item)) for item in (value if is_list(value) else [value])]
    if not parameter.explode and (is_object(value) or is_list(value)):
        raise ToolError(f"the cookie {parameter.name!r} cannot have several values: it has explode=false")
    for name, text in items:
        if not _COOKIE_NAME.fullmatch(name) or not _COOKIE_VALUE.fullmatch(text):
            raise ToolError(
                f"the cookie {name[:100]!r} cannot have the value {text[:100]!r}: use printable ASCII without spaces, "
                "quotes, commas, semicolons and backslashes"
            )
    return items


def header_text(parameter: OpenAPIParameter, value: Any) -> str:
    """Return the text of a header. Raises ToolError for characters that a header cannot have, and for an item with the
    character that separates items."""
    if is_object(value):
        sign = "=" if parameter.explode else ","
        items = [(str(key), scalar(item)) for key, item in value.items()]
        _check_items(parameter, [text for item in items for text in item], ",")
        _check_items(parameter, [key for key, _ in items], sign)
        text = ",".join(f"{key}{sign}{item}" for key, item in items)
    elif is_list(value):
        parts = [*map(scalar, value)]
        _check_items(parameter, parts, ",")
        text = ",".join(parts)
    else:
        text = scalar(value)
    if any(not 32 <= ord(character) < 127 for character in text):
        raise ToolError(f"the header {parameter.name!r} cannot have the value {text[:100]!r}: use printable ASCII")
    return text


def _check_items(parameter: OpenAPIParameter, items: list[str], separator: str) -> None:
    if wrong := next((item for item in items if separator in item), None):
        raise ToolError(f"the header {parameter.name!r} cannot have the item {wrong[:100]!r}: it has {separator!r}")


def scalar(value: Any) -> str:
    """Return the text of a value without structure; structured values become JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    from pydantic_core import to_json

    return to_json(value).decode()


def _parts(value: Any, explode: bool, safe: str) -> list[str]:
    if is_list(value):
        return [quote(scalar(item), safe=safe) for item in value]
    if is_object(value):
        encoded = [(quote(str(key), safe=""), quote(scalar(item), safe=safe)) for key, item in value.items()]
        return [f"{key}={text}" for key, text in encoded] if explode else [part for entry in encoded for part in entry]
    return [quote(scalar(value), safe=safe)]


def _matrix(parameter: OpenAPIParameter, value: Any, separator: str) -> str:
    name = quote(parameter.name, safe="")
    if parameter.explode and is_list(value):
        return separator.join(f"{name}={text}" for text in _parts(value, False, ""))
    if parameter.explode and is_object(value):
        return separator.join(_parts(value, True, ""))
    return f"{name}={','.join(_parts(value, False, ''))}"


def _deep(name: str, value: Any, level: int) -> EncodedItems:
    if level > _MAX_LEVELS:
        raise ToolError(f"the parameter {name!r} has more than {_MAX_LEVELS} levels")
    if is_object(value):
        items = [(quote(str(key), safe=""), item) for key, item in value.items()]
    elif is_list(value):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        return [(name, quote(scalar(value), safe=""))]
    return [entry for key, item in items for entry in _deep(f"{name}[{key}]", item, level + 1)]


def _leaves(value: Any) -> list[str]:
    """Return the texts that a path parameter consists of."""
    if is_object(value):
        return [text for key, item in value.items() for text in (str(key), scalar(item))]
    return [scalar(item) for item in value] if is_list(value) else [scalar(value)]
