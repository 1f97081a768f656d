"""Arguments that are JSON text: some clients send objects and arrays as strings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import from_json

from ...protocol.finite_numbers import is_finite
from ...protocol.models import is_list, is_object

_REFERENCE: Final = "#/$defs/"
_ALTERNATIVES: Final = ("anyOf", "oneOf", "allOf")
# Formats of strings that are not text for people: dates, UUIDs and the like never are an object or an array.
_TEXT_FORMATS: Final = ("password", "path", "file-path", "directory-path", "binary", "base64", "base64url", "regex")


def takes_text(schema: Any, whole: Mapping[str, Any]) -> bool:
    """Return True if a JSON Schema accepts free text, so that a string is meant as it is.

    Args:
        schema: The schema of an argument.
        whole: The schema with the definitions that references lead to.
    """
    seen = set[str]()
    opened = [schema]
    while opened:
        part = opened.pop()
        if not is_object(part):
            return True  # `true` accepts everything.
        reference = part.get("$ref")
        if isinstance(reference, str):
            if reference not in seen:
                seen.add(reference)
                opened.append(whole.get("$defs", {}).get(reference.removeprefix(_REFERENCE), {}))
            continue
        inner = [item for name in _ALTERNATIVES for item in part.get(name, ())]
        opened += inner
        if not inner and _is_text(part):
            return True
    return False


def _is_text(schema: Mapping[str, Any]) -> bool:
    if "enum" in schema or "const" in schema:
        return False
    kinds = schema.get("type", "string")
    has_text = "string" in kinds if is_list(kinds) else kinds == "string"
    return has_text and schema.get("format", "password") in _TEXT_FORMATS


def parsed_text(text: str) -> Any:
    """Return the array, the object or the null that a string has as JSON text; other strings as they are."""
    if not text.lstrip().startswith(("[", "{", "null")):
        return text
    try:
        parsed = from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
    return parsed if (parsed is None or is_object(parsed) or is_list(parsed)) and is_finite(parsed) else text
