"""Type hints that pydantic cannot read as they are, replaced by ones that it can.

These are `typing.TypedDict` before Python 3.12, classes with type hints that are not models, and the dataclasses and
named tuples that contain such types.
"""

from __future__ import annotations

import collections
import dataclasses
import inspect
from collections.abc import Callable
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import typing_extensions
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.models import is_list

T = TypeVar("T")

UNREADABLE: Final = (PydanticSchemaGenerationError, PydanticUserError)
_NO_DEFAULT: Final = inspect.Parameter.empty
_BY_KEYWORD: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_FROM_ATTRIBUTES: Final = ConfigDict(from_attributes=True)


class _Scope(NamedTuple):
    """Whether values become instances of their types, and the types that contain the current one."""

    instances: bool
    enclosing: tuple[Any, ...] = ()

    def within(self, hint: Any) -> _Scope:
        """Return the scope of the types that a type contains."""
        return self._replace(enclosing=(*self.enclosing, hint))


_ARGUMENT: Final = _Scope(instances=True)
RESULT: Final = _Scope(instances=False)


def readable_hint(hint: Any, scope: _Scope = _ARGUMENT) -> Any:
    """Return a type hint that pydantic can read; the hint itself where it can, or where there is none.

    Values have the type of the hint, or are models of it in the scope `RESULT`. Raises LocalError for a type that
    contains itself.
    """
    if get_origin(hint) is None and is_readable(hint):
        return hint
    if hint in scope.enclosing:
        name = getattr(hint, "__name__", hint)
        raise LocalError(f"the type {name!r} contains itself and is not a model: derive it from pydantic.BaseModel")
    origin, inner = get_origin(hint), get_args(hint)
    if origin is not None:
        return _with_readable_arguments(hint, origin, inner, scope)
    if typing_extensions.is_typeddict(hint):
        return _as_extension(hint, scope.within(hint))
    if isinstance(hint, type):
        return _readable_class(hint, scope.within(hint)) or hint
    return hint


def attribute_model(cls: type[Any]) -> type[BaseModel] | None:
    """Return a model of the attributes that a class declares with type hints, to be read from instances.

    None for a class without such attributes.
    """
    try:
        hints = get_type_hints(cls, include_extras=True)
    except (NameError, TypeError):
        return None
    public = {name: hint for name, hint in hints.items() if not name.startswith("_")}
    fields = {name: (hint, getattr(cls, name, _NO_DEFAULT)) for name, hint in public.items()}
    try:
        return _model(cls, fields, RESULT.within(cls)) if fields else None
    except (LocalError, *UNREADABLE):
        return None


def attributes_of(value: object) -> dict[str, Any] | None:
    """Return the attributes that the class of a value declares with type hints; None without such attributes."""
    hints: dict[str, Any] = {}
    for cls in reversed(type(value).__mro__):
        own = vars(cls).get("__annotations__")
        hints |= own if isinstance(own, dict) else {}  # Of functions and modules it is not a dict.
    names = [name for name in hints if not name.startswith("_") and hasattr(value, name)]
    return {name: getattr(value, name) for name in names} or None


def is_readable(hint: Any) -> bool:
    """Return True if pydantic can read a type."""
    try:
        TypeAdapter[Any](hint)
    except UNREADABLE:
        return False
    return True


def _with_readable_arguments(hint: Any, origin: Any, inner: tuple[Any, ...], scope: _Scope) -> Any:
    if origin is Literal:
        return hint
    if origin is Annotated:
        return Annotated[(readable_hint(inner[0], scope), *inner[1:])]
    arguments: tuple[Any, ...] = tuple(item if is_list(item) else readable_hint(item, scope) for item in inner)
    if arguments == inner:
        return hint
    if origin in (Union, UnionType):
        return Union[arguments]  # noqa: UP007 — `|` has no form for a tuple of types.
    kind: Any = origin
    return kind[arguments]


def _as_extension(hint: Any, scope: _Scope) -> Any:
    fields: dict[str, Any] = {}
    for name, annotation in get_type_hints(hint, include_extras=True).items():
        qualified = get_origin(annotation) in (Required, NotRequired)
        wrapper: Any = Required if name in hint.__required_keys__ else NotRequired
        if qualified:  # The keys of a class with postponed annotations do not tell.
            wrapper = get_origin(annotation)
        fields[name] = wrapper[readable_hint(get_args(annotation)[0] if qualified else annotation, scope)]
    make: Any = typing_extensions.TypedDict
    copy = make(hint.__name__, fields)
    copy.__doc__ = hint.__doc__
    return copy


def _readable_class(cls: Any, scope: _Scope) -> Any:
    """Return a type whose values are instances of a class; None for a class without type hints."""
    if hasattr(cls, "__get_pydantic_core_schema__"):  # The class says itself what it is.
        return None
    if _is_named_tuple(cls):
        hints = get_type_hints(cls, include_extras=True)
        make: Any = collections.namedtuple
        copy: Any = make(cls.__name__, cls._fields, defaults=cls._field_defaults.values())
        copy.__annotations__ = {name: readable_hint(hints.get(name, Any), scope) for name in cls._fields}
        return Annotated[copy, AfterValidator(cls._make)] if scope.instances else copy
    if is_dataclass_type(cls):
        hints = get_type_hints(cls, include_extras=True)
        return _instances(
            cls,
            {field.name: (hints[field.name], _default(field)) for field in dataclasses.fields(cls) if field.init},
            cls,
            scope,
        )
    if inspect.isabstract(cls) or getattr(cls, "_is_protocol", False):
        return None
    if _has_initializer(cls):
        fields = _initializer(cls)
        return None if fields is None else _instances(cls, fields, cls, scope)
    hints = get_type_hints(cls, include_extras=True)
    fields = {name: (hint, getattr(cls, name, _NO_DEFAULT)) for name, hint in hints.items() if name[0] != "_"}
    return _instances(cls, fields, _setter(cls), scope) if fields else None


def _has_initializer(cls: Any) -> bool:
    return cls.__init__ is not object.__init__


def _is_named_tuple(cls: Any) -> bool:
    return hasattr(cls, "_fields") and issubclass(cls, tuple)


def is_dataclass_type(cls: Any) -> bool:
    """Return True for a dataclass, without telling a type checker."""
    return dataclasses.is_dataclass(cls)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return Field(default_factory=field.default_factory)
    return _NO_DEFAULT if field.default is dataclasses.MISSING else field.default


def _initializer(cls: Any) -> dict[str, tuple[Any, Any]] | None:
    """Return the parameters of `__init__` with their types and defaults; None if one has no type hint, or no name."""
    try:
        hints = get_type_hints(cls.__init__, include_extras=True)
        parameters = inspect.signature(cls).parameters
    except (NameError, TypeError, ValueError):
        return None
    if not parameters or any(parameter.kind not in _BY_KEYWORD for parameter in parameters.values()):
        return None
    if not hints.keys() >= parameters.keys():
        return None
    return {name: (hints[name], parameter.default) for name, parameter in parameters.items()}


def _setter(cls: type[T]) -> Callable[..., T]:
    def make(**values: Any) -> T:
        instance = cls()
        for name, value in values.items():
            setattr(instance, name, value)
        return instance

    return make


def _instances(cls: Any, fields: dict[str, tuple[Any, Any]], make: Callable[..., Any], scope: _Scope) -> Any:
    """Return the type of a model that becomes an instance when it is validated."""
    model = _model(cls, fields, scope)
    if not scope.instances:
        return model

    def instance(value: Any) -> Any:
        return make(**{name: getattr(value, key) for key, name in names.items()})

    names = {f"a{number}": name for number, name in enumerate(fields)}
    return _annotated(model, AfterValidator(instance))


def _annotated(*parts: Any) -> Any:
    """Return a type hint with metadata: the first part is the type."""
    hint, *metadata = parts
    return Annotated[(hint, *metadata)]


def _model(cls: Any, fields: dict[str, tuple[Any, Any]], scope: _Scope) -> type[BaseModel]:
    """Return a model with the name of a class. Its properties are aliases, which cannot clash with its attributes."""
    items: dict[str, Any] = {}
    for number, (name, (hint, default)) in enumerate(fields.items()):
        annotation = _annotated(readable_hint(hint, scope), Field(alias=name))
        items[f"a{number}"] = (annotation, ... if default is _NO_DEFAULT else default)
    make: Any = create_model
    model: type[BaseModel] = make(cls.__name__, __config__=_FROM_ATTRIBUTES, __doc__=_own_docstring(cls), **items)
    return model


def _attribute(cls: Any, name: str) -> Any:
    """Return an attribute of a class that it does not inherit; None without one."""
    return cls.__dict__.get(name)


def _own_docstring(cls: Any) -> str | None:
    doc: str | None = _attribute(cls, "__doc__")
    generated = doc is not None and is_dataclass_type(cls) and doc.startswith(f"{cls.__name__}(")
    return None if generated else doc
