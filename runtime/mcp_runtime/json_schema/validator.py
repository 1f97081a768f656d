"""A JSON Schema goes in, comes out compiled, and says of any JSON value whether it fits, within a bounded time.

Neither the schema nor the value needs to be trusted. Patterns run on an engine that is linear in the text, references
lead inside the schema alone, and what else could take long is counted before it is done (see `cost`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from ..errors import InvalidMessageError, InvalidSchemaError, LocalError
from ..protocol.models import is_object
from .cost import Cost, measure

if TYPE_CHECKING:
    import jsonschema_rs

LATEST: Final = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7: Final = "http://json-schema.org/draft-07/schema"
_CLASSES: Final = {LATEST: "Draft202012Validator", DRAFT_7: "Draft7Validator"}

MAX_SCHEMA_CHARACTERS: Final = 128 << 10  # Bytes of a schema.
MAX_WORK: Final = 4_000_000  # About 10 ns each.
_MAX_EXPLAINED: Final = (
    50_000  # Work up to which it is said why no alternative fits: that costs much more than that none does.
)
_PATTERN_BYTES: Final = 1 << 20
_MAX_SHOWN: Final = 300  # Characters of a complaint, which may repeat the value.


class CompiledSchema:
    """A compiled schema. Use `compiled`, which keeps them."""

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:
        """Raises InvalidSchemaError where it is not one, or not one that can be used safely."""
        self._cost = Cost({} if isinstance(schema, bool) else schema)
        self._validator = _validator(schema)

    def first_error(self, value: Any) -> str | None:
        """Where the value, parsed JSON, does not fit, and how; None where it does. Takes less than 100 ms.

        Raises InvalidMessageError for a value that is too large for the schema to be checked in that time.
        """
        if (found := self._cost.of(measure(value))) > MAX_WORK:
            raise InvalidMessageError(
                f"a value is too large for its JSON Schema: checking it takes {found} steps, {MAX_WORK} are allowed"
            )
        if self._validator.is_valid(value):
            return None
        if found > _MAX_EXPLAINED and self._cost.branches:
            return "does not fit the schema"
        try:
            self._validator.validate(value)
        except ValueError as raised:  # As jsonschema-rs has it: its ValidationError is one.
            fault: Any = raised
        else:
            return None
        path = ".".join(str(step) for step in fault.instance_path)
        text = fault.message if len(fault.message) <= _MAX_SHOWN else f"{fault.message[:_MAX_SHOWN]}…"
        return f"{path}: {text}" if path else text


def compile_schema(schema: Mapping[str, Any] | bool) -> CompiledSchema:
    """The schema, compiled: as its `$schema` says, 2020-12 if it says nothing. Compiled schemas are kept.

    Raises InvalidSchemaError for what is no schema, for another dialect, for references that lead elsewhere, and for what
    is too large or could take too long.
    """
    try:
        text = to_json(schema)
    except (PydanticSerializationError, ValueError, RecursionError) as fault:
        raise InvalidSchemaError(f"a JSON Schema is not JSON: {fault}") from None
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise InvalidSchemaError(f"a JSON Schema has {len(text)} bytes; {MAX_SCHEMA_CHARACTERS} are allowed")
    return _cached(text)


@lru_cache(maxsize=256)
def _cached(text: bytes) -> CompiledSchema:
    return CompiledSchema(from_json(text))


def _validator(schema: Mapping[str, Any] | bool) -> jsonschema_rs.Draft7Validator | jsonschema_rs.Draft202012Validator:
    try:
        import jsonschema_rs
    except ImportError:
        raise LocalError("checking JSON Schemas needs jsonschema-rs: pip install 'mcp-codegen[app]'") from None
    said = schema.get("$schema", LATEST) if is_object(schema) else LATEST
    dialect = _dialect(said)
    kind = jsonschema_rs.Draft7Validator if dialect == DRAFT_7 else jsonschema_rs.Draft202012Validator
    patterns = jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES, dfa_size_limit=_PATTERN_BYTES)
    try:
        given = schema if isinstance(schema, bool) else dict(schema)
        return kind(given, offline=True, validate_formats=False, pattern_options=patterns)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as fault:
        text = getattr(fault, "message", str(fault)).partition("\n")[0]
        raise InvalidSchemaError(f"a JSON Schema cannot be used: {text[:_MAX_SHOWN]}") from None


def _dialect(declared: object) -> str:
    plain = (
        declared.rstrip("#").replace("https://json-schema.org/draft-07", "http://json-schema.org/draft-07")
        if isinstance(declared, str)
        else declared
    )
    if plain not in _CLASSES:
        raise InvalidSchemaError(
            f"a JSON Schema is of a dialect that is not known here: {declared!r}; known are 2020-12 and draft-07"
        )
    return str(plain)
