"""Results with content of types that a protocol version does not define."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError

from .models import is_list, is_object, validator

UNKNOWN_TAG: Final = "union_tag_invalid"
_STAND_IN: Final = {"type": "text", "text": ""}  # Content that every protocol version defines.

_Path = tuple[int | str, ...]


class UnknownContent(BaseModel):
    """Content of a type that the protocol version does not define. All its properties are attributes, and in
    `model_extra`."""

    model_config = ConfigDict(defer_build=True, extra="allow", protected_namespaces=())

    type: str


def read_with_unknown_content(shape: type[BaseModel], value: dict[str, Any], error: ValidationError) -> Any:
    """Return a result whose validation has failed, with unknown content in its place. Raises the error if something
    else is wrong with it."""
    listed = error.errors(include_url=False, include_input=False)
    paths = [item["loc"] for item in listed]
    items = {path: item for path in paths if is_object(item := _at(value, path)) and type(item.get("type")) is str}
    if len(items) < len(paths) or any(item["type"] != UNKNOWN_TAG for item in listed):
        raise error
    changed: Any = value
    for path in items:
        changed = _replaced(changed, path)
    result = validator(shape)(changed)
    for path, item in items.items():
        _put(result, path, UnknownContent.model_validate(item))
    return result


def _at(value: Any, path: _Path) -> object:
    """Return the JSON value at a path; None if the path does not lead to one."""
    for step in path:
        if is_object(value) and step in value:
            value = value[str(step)]
        elif is_list(value) and type(step) is int and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _replaced(value: Any, path: _Path) -> Any:
    """Return a copy of a JSON value with content that every version defines at a path."""
    if not path:
        return _STAND_IN
    copy = value.copy()
    copy[path[0]] = _replaced(copy[path[0]], path[1:])
    return copy


def _put(owner: Any, path: _Path, content: UnknownContent) -> None:
    """Put content into the place of what stands in for it."""
    *steps, last = path
    for step in steps:
        owner = getattr(owner, _attribute(owner, step)) if isinstance(step, str) else owner[step]
    if isinstance(last, str):
        setattr(owner, _attribute(owner, last), content)
    else:
        owner[last] = content


def _attribute(model: BaseModel, property: str) -> str:
    fields = type(model).model_fields
    return next((name for name, field in fields.items() if field.alias == property), property)
