"""Compiled JSON Schemas that validate untrusted values with untrusted schemas in bounded time.

Patterns run on an engine with linear time, references are resolved only inside the schema, and the cost of a validation
is computed before it starts (see `cost`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from mcp_runtime.errors import InvalidMessageError, InvalidSchemaError, LocalError
from mcp_runtime.protocol.models import is_list, is_object

from .cost import Cost, measure

if TYPE_CHECKING:
    import jsonschema_rs


# The keyword `uniqueItems`, in linear time.
#
# The validator's own way compares all items that have the same hash, and the hash of lists and of large integers is
# easy to predict. Here the items are compared by text, whose hash depends on a secret of the process.

_MAX_SHOWN: Final = 20  # Items of a list in a message.
LATEST: Final = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7: Final = "http://json-schema.org/draft-07/schema"
MAX_SCHEMA_CHARACTERS: Final = 128 << 10  # The limit of a serialized schema, in bytes.
MAX_WORK: Final = 4_000_000  # The limit of one validation, in steps of about 10 ns.
_MAX_PATTERN_BYTES: Final = 1 << 20
_MAX_ERROR_LENGTH: Final = 300  # Characters of an error text, which may contain the value.


class UniqueItems:
    """The check of one `uniqueItems`, as the validator calls it."""

    def __init__(self, parent: object, value: object, path: object) -> None:
        """Create the check; it accepts all lists if the value is False."""
        self._is_required = value is True

    def validate(self, instance: Any) -> None:
        """Raise ValueError for a list with two equal items."""
        if self._is_required and is_list(instance) and has_duplicates(instance):
            rest = "…" if len(instance) > _MAX_SHOWN else ""
            raise ValueError(f"{instance[:_MAX_SHOWN]}{rest} has non-unique elements")


def has_duplicates(items: list[Any]) -> bool:
    """Return True if two items are equal: 1 and 1.0 are, and objects with the same members in any order."""
    seen: set[str] = set()
    for item in items:
        if isinstance(item, str):
            text = f'"{item}'
        else:
            pieces: list[str] = []
            _write(item, pieces)
            text = "".join(pieces)
        if text in seen:
            return True
        seen.add(text)
    return False


def _write(value: Any, pieces: list[str]) -> None:
    """Append a text that is the same for equal values only. The length of a string tells where it ends."""
    if isinstance(value, str):
        pieces.append(f'{len(value)}"{value}')
    elif is_list(value):
        pieces.append(f"[{len(value)}:")
        for item in value:
            _write(item, pieces)
    elif is_object(value):
        pieces.append(f"{{{len(value)}:")
        for name in sorted(value):
            pieces.append(f'{len(name)}"{name}')
            _write(value[name], pieces)
    elif isinstance(value, float) and not value.is_integer():
        pieces.append(f"{value!r};")
    elif value is None or isinstance(value, bool):
        pieces.append(f"{value};")
    else:
        pieces.append(f"{int(value):x};")  # Hexadecimal digits take linear time, decimal ones do not.


class CompiledSchema:
    """A compiled schema. Use `compile_schema`, which caches them."""

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        """Compile a schema. Raises InvalidSchemaError if it is invalid or unsafe."""
        self._cost = Cost({} if isinstance(schema, bool) else schema)
        self._validator = _validator(schema, {"uniqueItems": UniqueItems} if self._cost.unique else None)

    def first_error(self, value: Any) -> str | None:
        """Return the first validation error of a parsed JSON value with its path, None if the value is valid.

        The validation takes less than 100 ms. Raises InvalidMessageError for a value that would take longer.
        """
        sizes = measure(value)
        if (work := self._cost.upper_bound(sizes)) > MAX_WORK:
            text = f"a value is too large for its JSON Schema: validation takes {work} steps, {MAX_WORK} are allowed"
            raise InvalidMessageError(text)
        if self._validator.is_valid(value):
            return None
        if self._cost.branches and self._cost.explanation(sizes) > MAX_WORK:
            return "does not match the schema"
        try:
            self._validator.validate(value)
        except ValueError as exception:  # The ValidationError of jsonschema-rs is a ValueError.
            error: Any = exception
        else:
            return None
        path = ".".join(str(step) for step in error.instance_path)
        text = error.message if len(error.message) <= _MAX_ERROR_LENGTH else f"{error.message[:_MAX_ERROR_LENGTH]}…"
        return f"{path}: {text}" if path else text


def compile_schema(schema: Mapping[str, Any] | bool) -> CompiledSchema:
    """Return the compiled schema, from a cache if possible. Its dialect is that of `$schema`, by default 2020-12.

    Raises InvalidSchemaError if the schema is invalid, has another dialect or external references, or exceeds a limit.
    """
    try:
        text = to_json(schema)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise InvalidSchemaError(f"a JSON Schema cannot be serialized as JSON: {error}") from None
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise InvalidSchemaError(f"a JSON Schema has {len(text)} bytes; {MAX_SCHEMA_CHARACTERS} are allowed")
    return _cached(text)


@lru_cache(maxsize=256)
def _cached(text: bytes) -> CompiledSchema:
    return CompiledSchema(from_json(text))


def _validator(
    schema: Mapping[str, Any] | bool, keywords: dict[str, Any] | None
) -> jsonschema_rs.Draft7Validator | jsonschema_rs.Draft202012Validator:
    try:
        import jsonschema_rs
    except ModuleNotFoundError:
        raise LocalError("JSON Schema validation needs jsonschema-rs: pip install 'mcp-generated[app]'") from None
    dialect = _dialect(schema.get("$schema", LATEST) if is_object(schema) else LATEST)
    kind = jsonschema_rs.Draft7Validator if dialect == DRAFT_7 else jsonschema_rs.Draft202012Validator
    patterns = jsonschema_rs.RegexOptions(size_limit=_MAX_PATTERN_BYTES, dfa_size_limit=_MAX_PATTERN_BYTES)
    try:
        document = schema if isinstance(schema, bool) else dict(schema)
        return kind(document, offline=True, validate_formats=False, pattern_options=patterns, keywords=keywords)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        text = getattr(error, "message", str(error)).partition("\n")[0]
        raise InvalidSchemaError(f"a JSON Schema cannot be used: {text[:_MAX_ERROR_LENGTH]}") from None


def _dialect(declared: object) -> str:
    text = declared.rstrip("#") if isinstance(declared, str) else ""
    dialect = text.replace("https://json-schema.org/draft-07", "http://json-schema.org/draft-07")
    if dialect not in (LATEST, DRAFT_7):
        text = f"a JSON Schema has the unsupported dialect {declared!r}; supported are 2020-12 and draft-07"
        raise InvalidSchemaError(text)
    return dialect
