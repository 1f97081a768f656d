"""The descriptions of properties, and the JSON Schema of models: read when somebody asks for them, because no message
needs them.

The descriptions stand in generated modules as strings below the fields, where editors find them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from types import ModuleType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, RootModel
from pydantic_core import PydanticCustomError, ValidationError

from mcp_runtime.protocol.lenient import lenient_reader
from mcp_runtime.protocol.models import OPTIONAL_ANY, is_list, is_model, is_object, validation

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Null = Literal["absent", "refused"]

_Schema = dict[str, Any]

# Bounds of a union, which pydantic leaves under the names that they have in Python.
_BOUNDS: Final = {
    **{"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"},
    **{"min_length": "minLength", "max_length": "maxLength"},
}


@cache
def described_fields(cls: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """Return the fields of a model by attribute, with their descriptions."""
    fields = cls.__pydantic_fields__
    for base in reversed(cls.__mro__):
        for name, text in _sentences(inspect.getmodule(base)).get(base.__qualname__, {}).items():
            if name in fields and fields[name].description is None:
                fields[name].description = text
    return fields


@cache
def _sentences(module: ModuleType | None) -> Mapping[str, Mapping[str, str]]:
    """Return the sentences below the fields of each class of a module; none where its source is not at hand."""
    spec = None if module is None else module.__spec__
    get_source = getattr(spec.loader if spec is not None else None, "get_source", None)  # A loader may have none.
    try:
        text = get_source(spec.name) if spec is not None and get_source is not None else None
    except (ImportError, OSError):
        text = None
    if text is None:
        return {}
    try:
        tree = ast.parse(text)
    except SystemError:  # Python 3.11 and 3.12 count wrongly if another thread parses meanwhile (CPython issue 106905).
        tree = ast.parse(text)
    return {node.name: _sentences_of(node) for node in tree.body if isinstance(node, ast.ClassDef)}


def _sentences_of(node: ast.ClassDef) -> Mapping[str, str]:
    sentences: dict[str, str] = {}
    for statement, below in zip(node.body, node.body[1:], strict=False):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                sentences[name] = " ".join(text.split())
            case _:
                pass
    return sentences


def exported_schema(cls: type[BaseModel], schema: _Schema) -> _Schema:
    """Return the JSON Schema of a model as the specification has it: with descriptions, and without null for optional
    properties, which may be absent."""
    properties = schema.get("properties")
    if not is_object(properties):
        return schema
    for name, field in described_fields(cls).items():
        key = name if name in properties else field.alias or name
        if is_object(written := properties.get(key)):
            properties[key] = _property(written, field)
    return schema


def _property(written: _Schema, field: FieldInfo) -> _Schema:
    if field.exclude_if is not None or OPTIONAL_ANY in field.metadata:  # None means that it is absent.
        written = {key: value for key, value in written.items() if key != "default"}
        arms = written.get("anyOf")
        rest = [arm for arm in arms if arm != {"type": "null"}] if is_list(arms) else []
        if rest:
            del written["anyOf"]
            written = {**rest[0], **written} if len(rest) == 1 else {"anyOf": rest, **written}
    written = _with_bounds(written)
    return {"description": field.description, **written} if field.description else written


def _with_bounds(written: _Schema) -> _Schema:
    return {_BOUNDS.get(key, key): value for key, value in written.items()}


# What to write instead, if a message is used like a list, a dict or the results of other packages.


def list_field(cls: type[BaseModel]) -> str:
    """Return the field with the items of a result that has pages; an empty text for other messages."""
    fields = cls.__pydantic_fields__
    if "next_cursor" not in fields:
        return ""
    return next((name for name, field in fields.items() if get_origin(field.annotation) is list), "")


def refuse_iteration(cls: type[BaseModel]) -> None:
    """Raise TypeError for the iteration of a result with pages, which would be taken for its list."""
    if name := list_field(cls):
        raise TypeError(
            f"{cls.__name__} is one page, not a list: iterate over its attribute {name!r}, or with `async for` over "
            f"iter_{name}() of the client, which yields those of all pages"
        )


def item_remedy(cls: type[BaseModel], key: object, attributes: Mapping[str, str]) -> str:
    """Return the message for `message[key]`."""
    if isinstance(key, str):
        name = attributes.get(key, key)
        remedy = f"write .{name}" if name in cls.__pydantic_fields__ else "to_dict() has its JSON"
    else:
        name = list_field(cls) or ("content" if "content" in cls.__pydantic_fields__ else "")
        remedy = f"its attribute {name!r} is a list" if name else "to_dict() has its JSON"
    return f"{cls.__name__} has attributes, not items: {remedy}"


def attribute_remedy(cls: type[BaseModel], name: str) -> str:
    """Return the message for an attribute that results of other packages have; an empty text for other names."""
    fields = cls.__pydantic_fields__
    if not {"content", "is_error"} <= fields.keys():
        return ""
    if name == "data":  # FastMCP's name of its value.
        remedy = "structured_content has the value" if "structured_content" in fields else "content has the blocks"
    elif name == "text":
        remedy = "content is a list of blocks, and those of the type 'text' have it: content[0].text"
    else:
        return ""
    return f"{cls.__name__} has no attribute {name!r}: {remedy}"


# Read JSON as a type for users: what null and unknown content mean is theirs to say.


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
        written = read.model_dump(mode="json") if is_model(read) else RootModel[Any](read).model_dump()
        if (path := next(_lost_nulls(value, written), None)) is not None:
            wrong = PydanticCustomError("null", "null is not a value of this property; leave the property out")
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
