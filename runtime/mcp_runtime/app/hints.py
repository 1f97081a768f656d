"""A type hint goes in, the same one as pydantic takes it comes out: before Python 3.12 it refuses `typing.TypedDict`."""

from __future__ import annotations

import sys
from typing import Any, NotRequired, Required, get_args, get_origin, get_type_hints, is_typeddict

import typing_extensions


def pydantic_compatible(hint: Any) -> Any:
    """The hint, with each `typing.TypedDict` in it as that of typing_extensions, where pydantic needs this."""
    if sys.version_info >= (3, 12):
        return hint
    if is_typeddict(hint):
        return _as_extension(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if not isinstance(origin, type) or not any(map(is_typeddict, inner)):
        return hint
    kind: Any = origin
    return kind[tuple(map(pydantic_compatible, inner))]


def _as_extension(hint: Any) -> Any:
    fields: dict[str, Any] = {}
    for name, each in get_type_hints(hint, include_extras=True).items():
        bare = get_args(each)[0] if get_origin(each) in (Required, NotRequired) else each
        wrapper: Any = Required if name in hint.__required_keys__ else NotRequired
        fields[name] = wrapper[pydantic_compatible(bare)]
    make: Any = typing_extensions.TypedDict
    return make(hint.__name__, fields)
