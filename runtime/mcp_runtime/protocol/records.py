"""The seam of records: what reads and makes messages without the models of their types, where a product does that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, cast

from .. import products
from .models import Read, read_as_model
from .result_types import read_result
from .revision import Request, Sent


class CopiedParams(Protocol):
    """Params of a method that a conversion changes only by what it adds, the same for the same capabilities."""

    def record(self, params: Any, capabilities: Any) -> Any:
        """Return the params for a handler; None if they have to be converted."""
        ...

    def note(self, params: Any, value: dict[str, Any], result: Any, capabilities: Any) -> None:
        """Note params that were converted, if others can be copied like them."""


class Records(Protocol):
    """What reads and makes messages. A shape is the type of an object: a model, or what stands for one."""

    def read_as_record(self, row: Sent) -> Read:
        """Return the function that reads the params of a message. It raises the ValidationError of their model."""
        ...

    def as_model(self, value: Any) -> Any:
        """Return what was read as an instance of the model of its type; other values as they are."""
        ...

    def may_require_input(self, row: Request[Any]) -> bool:
        """Return True if a request may have an interim result with input requests."""
        ...

    def result_type(self, row: Request[Any]) -> Any:
        """Return the shape of the final result of a request."""
        ...

    def pre_serialized(self, result: Any) -> Any:
        """Return a result as one that needs no further check, if it needs none."""
        ...

    def property_names(self, shape: Any) -> frozenset[str]:
        """Return the properties of a shape."""
        ...

    def property_type(self, shape: Any, property: str) -> Any:
        """Return the type of a property of a shape; None if it has no such property."""
        ...

    def copied_params(self, touched: frozenset[str] | None) -> CopiedParams | None:
        """Return what copies params whose properties but for the touched ones are not converted; None if nothing does.
        All properties may be touched if `touched` is None."""
        ...


class Models:
    """Reads and makes all messages as models."""

    def read_as_record(self, row: Sent) -> Read:
        """Return the function that reads the params as a model."""
        return read_as_model(row)

    def as_model(self, value: Any) -> Any:
        """Return the value: it is a model."""
        return value

    def may_require_input(self, row: Request[Any]) -> bool:
        """Return True if the type of the interim result has input requests."""
        return row.input_required is not None

    def result_type(self, row: Request[Any]) -> Any:
        """Return the model of the result."""
        return row.result

    def pre_serialized(self, result: Any) -> Any:
        """Return the result, which is checked again."""
        return result

    def property_names(self, shape: Any) -> frozenset[str]:
        """Return the properties of a model."""
        return frozenset(field.alias or name for name, field in shape.__pydantic_fields__.items())

    def property_type(self, shape: Any, property: str) -> Any:
        """Return the type of a property of a model; None if it has no such property."""
        shape.model_rebuild()  # Else an annotation may be a string until the first instance.
        fields = shape.__pydantic_fields__.items()
        return next((field.annotation for name, field in fields if property in (name, field.alias)), None)

    def copied_params(self, touched: frozenset[str] | None) -> CopiedParams | None:
        """Return None: all params are converted."""
        return None


MODELS: Final = Models()


def records() -> Records:
    """Return what reads and makes messages."""
    return cast("Records | None", products.find("records")) or MODELS


def make_result(row: Request[Any], fields: Mapping[str, Any]) -> Any:
    """Return the result of a request with these properties. Raises ValidationError."""
    return read_result(records().result_type(row), fields)
