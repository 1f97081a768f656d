"""Types of other protocols whose schemas say more than Python's types: values also match a JSON Schema.

The type is what programs see; the schema holds what no type says, such as `not`, `if` or `uniqueItems`. A value is
compared as the JSON that it is on the wire.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, cast

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema, from_json, to_jsonable_python

from mcp_products.json_schema.validator import CompiledSchema, compile_schema
from mcp_runtime.errors import InvalidMessageError
from mcp_runtime.protocol.wire_models import WireModel


class Matches:
    """The annotation of a type: its values match a JSON Schema as well, given as text."""

    def __init__(self, schema: str) -> None:
        """Keep the text; it is compiled for the first value."""
        self.schema = schema

    @cached_property
    def _compiled(self) -> CompiledSchema:
        return compile_schema(from_json(self.schema))

    def check(self, value: Any) -> Any:
        """Return the value. Raises ValueError if it does not match."""
        try:
            error = self._compiled.first_error(to_jsonable_python(value, by_alias=True))
        except InvalidMessageError as too_large:
            error = str(too_large)
        if error is not None:
            raise ValueError(error)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))


class MatchedModel(WireModel):
    """A JSON object that matches the JSON Schema in `__matches__` as well."""

    __matches__: ClassVar[str] = "true"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> CoreSchema:
        schema = super().__get_pydantic_core_schema__(source, handler)
        model = cast("dict[str, Any]", handler.resolve_ref_schema(schema))
        # In its place, so that a type that refers to itself refers to what checks it.
        inner = {key: value for key, value in model.items() if key != "ref"}
        checked = core_schema.no_info_after_validator_function(Matches(cls.__matches__).check, cast(Any, inner))
        reference = model.get("ref")
        model.clear()
        model.update(checked)
        if reference is not None:
            model["ref"] = reference
        return schema
