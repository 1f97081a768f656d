"""Descriptions in `Annotated`: a text, or a `Doc` of PEP 727."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typing_extensions

from mcp_runtime.protocol.models import is_list


def is_description(metadata: object) -> bool:
    """Return True for metadata of `Annotated` that describes a type in words."""
    return isinstance(metadata, (str, typing_extensions.Doc))


def described(hint: Any) -> Any:
    """Return a type hint with its texts as descriptions that pydantic reads: `Annotated[int, "the number"]`.

    A `Field(description=…)` takes precedence. Types inside of the type have their own.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin is None or origin is Literal or not _has_text(hint):
        return hint
    if origin is Annotated:
        return _described_annotated(described(inner[0]), inner[1:])
    items = tuple([*map(described, item)] if is_list(item) else described(item) for item in inner)
    if origin in (Union, UnionType):
        return Union[items]  # noqa: UP007 — `|` has no form for a tuple of types.
    kind: Any = origin
    return hint.copy_with(items) if hasattr(hint, "copy_with") else kind[items]


def _described_annotated(inner: Any, metadata: tuple[Any, ...]) -> Any:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    texts = [item if isinstance(item, str) else item.documentation for item in metadata if is_description(item)]
    rest = [item for item in metadata if not is_description(item)]
    own = any(isinstance(item, FieldInfo) and item.description for item in rest)
    if texts and not own:
        rest.append(Field(description=texts[0]))
    return Annotated[(inner, *rest)] if rest else inner


def _has_text(hint: Any) -> bool:
    if get_origin(hint) is Literal:
        return False
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return any(map(is_description, inner[1:])) or _has_text(inner[0])
    return any(map(_has_text, inner))
