"""Base class and field kinds of all generated types: what is on the wire and what is not.

* A property the schema requires must be there, constants included; a constructor fills constants in by itself.
* A property the schema leaves optional is `None` in Python when it is absent, and is absent on the wire when `None`.
* A property that may be any JSON value and may be absent is `MISSING` in Python when it is absent, because `None` is
  a value there.
* Properties the schema does not name are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

try:
    from pydantic import MISSING as MISSING
except ImportError:  # pydantic 2.12 and 2.13
    from pydantic.experimental.missing_sentinel import MISSING as MISSING

T = TypeVar("T")


def _whole(value: Any) -> Any:
    """JSON has no integers: peers in other languages write 5 as 5.0."""
    return int(value) if type(value) is float and value.is_integer() else value


Opt = Annotated[T | None, Field(exclude_if=lambda value: value is None)]
Int = Annotated[int, BeforeValidator(_whole)]
Number = int | float

if TYPE_CHECKING:

    def const(value: T) -> T:
        """A constant of the schema; for a type checker, a default."""
        ...

else:

    def const(value):
        return Field(json_schema_extra={"const": value})


class WireModel(BaseModel):
    """A JSON object of the protocol."""

    model_config = ConfigDict(
        extra="allow",
        serialize_by_alias=True,
        validate_by_alias=True,
        validate_by_name=True,
        protected_namespaces=(),
    )
    __consts__: ClassVar[dict[str, Any]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        own = {
            name: field.json_schema_extra["const"]
            for name, field in cls.model_fields.items()
            if isinstance(field.json_schema_extra, dict) and "const" in field.json_schema_extra
        }
        cls.__consts__ = own

    def __init__(self, /, **data: Any) -> None:
        # Only direct construction comes through here; validation fills instances without calling __init__.
        self.__pydantic_validator__.validate_python({**self.__consts__, **data}, self_instance=self)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # Tells pydantic that validation need not call it.
