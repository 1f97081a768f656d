"""What to write instead, if a message is used like a list, a dict or the results of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_origin

from pydantic import BaseModel


def list_field(cls: type[BaseModel]) -> str:
    """Return the field with the items of a result that has pages; an empty text for other messages."""
    fields = cls.__pydantic_fields__
    if "next_cursor" not in fields:
        return ""
    return next((name for name, field in fields.items() if get_origin(field.annotation) is list), "")


def iteration_remedy(cls: type[BaseModel]) -> str:
    """Return the message for the iteration of a result with pages."""
    name = list_field(cls)
    return (
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
