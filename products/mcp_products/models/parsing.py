"""Read JSON as a type for users: what null and unknown content mean is theirs to say."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticCustomError, ValidationError

from mcp_runtime._lazy import LazyModule
from mcp_runtime.protocol.lenient import lenient_reader
from mcp_runtime.protocol.models import is_list, is_model, is_object, validation

if TYPE_CHECKING:
    import pydantic
else:  # Imported when it is used.
    pydantic = LazyModule("pydantic")

Null = Literal["absent", "refused"]


def parse(shape: Any, value: Any, *, strict: bool = True, null: Null = "absent", unknown: bool = False) -> Any:
    """Return parsed JSON as a value of a type, also of a union, by the names of the schema alone.

    Args:
        shape: The type.
        value: The JSON, parsed.
        strict: False to convert what pydantic converts: `"5"` to a number.
        null: "refused" to refuse null where a property may only be absent, so that nothing is lost when the value is
            written; "absent" to read it as an absent property.
        unknown: True to keep content of a `type` that the schema does not have, as `UnknownContent`.

    Raises ValidationError.
    """
    if unknown and strict and is_object(value):
        read = lenient_reader().read_with_unknown_content(shape, value)
    else:
        read = validation(shape)(value, strict=strict, by_alias=True, by_name=False)
    if null == "refused":
        written = read.model_dump(mode="json") if is_model(read) else pydantic.RootModel[Any](read).model_dump()
        if (path := next(_lost_nulls(value, written), None)) is not None:
            wrong = PydanticCustomError("null", "null is no value of this property; leave the property out")
            name = getattr(shape, "__name__", str(shape))
            raise ValidationError.from_exception_data(name, [{"type": wrong, "loc": path, "input": None}])
    return read


def _lost_nulls(value: object, written: object, path: tuple[int | str, ...] = ()) -> Iterator[tuple[int | str, ...]]:
    """Yield the path of each null that was not written again."""
    if is_object(value) and is_object(written):
        for name, item in value.items():
            if item is None and name not in written:
                yield (*path, name)
            yield from _lost_nulls(item, written.get(name), (*path, name))
    elif is_list(value) and is_list(written):
        for index, pair in enumerate(zip(value, written, strict=False)):
            yield from _lost_nulls(*pair, (*path, index))


def is_instance(value: object, shape: Any) -> bool:
    """Return True for a value of a class or of a union of classes, whose name `isinstance` refuses."""
    while hasattr(shape, "__value__"):
        shape = shape.__value__
    if get_origin(shape) is Annotated:
        shape = get_args(shape)[0]
    if get_origin(shape) in (Union, UnionType):
        return any(is_instance(value, arm) for arm in get_args(shape))
    if get_origin(shape) is Literal:
        return value in get_args(shape)
    return isinstance(value, get_origin(shape) or shape)
