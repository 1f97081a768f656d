"""Types of the protocol among those of users, told without loading them, and values of other protocol versions."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from mcp_runtime.errors import ConversionError, InvalidMessageError, LocalError
from mcp_runtime.protocol.jsonrpc import to_plain

if TYPE_CHECKING:
    from pydantic import BaseModel

_MODULE: Final = f"{LocalError.__module__.rpartition('.')[0]}.protocol.wire_models"


# Modules of types in another form than that of a protocol version, by their names: the base class of their types, and
# the newest version that they have.
_FORMS: Final[dict[str, tuple[type[BaseModel], str]]] = {}


def register_form(module: str, base: type[BaseModel], revision: str) -> None:
    """Let functions return types of a module, which have the names of the protocol and another form."""
    _FORMS[module] = base, revision


def wire_model() -> tuple[type[BaseModel], ...]:
    """Return the base classes of generated types, for `isinstance`; none as long as no type is loaded."""
    module = sys.modules.get(_MODULE)
    forms = tuple(base for base, _ in _FORMS.values())
    return forms if module is None else (module.WireModel, *forms)


# Values of other protocol versions that functions return: they become those of the version of the app.


def own_type(cls: Any, t: ModuleType) -> type[Any] | None:
    """Return the type of `t` with the name of a type of another version; None for other classes, and without one."""
    origin = _origin(cls, t)
    return None if origin is None else getattr(t, origin[1].__name__, None)


def as_own(value: Any, t: ModuleType, kinds: tuple[type[Any], ...] = ()) -> Any:
    """Return a value of another version as that of `t`, and other values as they are.

    Args:
        value: What a function has returned.
        t: The types of the version of the app.
        kinds: The types that are converted; the others are data. By default, content of results.

    Raises InvalidMessageError for what the version of `t` cannot represent, such as a result that it does not have.
    """
    origin = _origin(type(value), t) if isinstance(value, wire_model()) else None
    if origin is None:
        return value
    revision, cls = origin
    own = own_type(cls, t)
    if own is None:
        if kinds and "Result" in (base.__name__ for base in cls.__mro__):
            names = " or ".join(kind.__name__ for kind in kinds)
            raise InvalidMessageError(f"{_own_id(t)} has no {cls.__name__} as {revision} has it: return {names}")
        return value
    if not issubclass(own, kinds or (t.ResourceContents, t.Resource)) and (kinds or "type" not in own.model_fields):
        return value
    from mcp_products.versions.conversion import chain_of  # Most apps need no conversion.

    if cls.__module__ in _FORMS:
        plain = value.model_dump(mode="json", by_alias=True, exclude_none=True)
        if revision == _own_id(t):
            return own.model_validate(plain)
    else:
        plain = to_plain(value)
    try:
        converted = chain_of(_package(t), revision, _own_id(t)).convert_type(cls.__name__, plain)
    except ConversionError as error:
        raise InvalidMessageError(f"{cls.__name__} of {revision}: {error}") from None
    return own.model_validate(converted)


@cache
def _origin(cls: type[object], t: ModuleType) -> tuple[str, type[object]] | None:
    """Return the version and the generated class of a class that is one of another version than `t`, or inherits it."""
    versions = {f"{_package(t)}.{module}.types": id for id, module in _modules(t).items()}
    for base in cls.__mro__:
        if base.__module__ in _FORMS and base.__module__.startswith(f"{_package(t)}."):
            return _FORMS[base.__module__][1], base
        module, types, _ = base.__module__.partition(".types")
        revision = versions.get(module + types)
        if revision is not None:
            return None if module + types == t.__name__ else (revision, base)
    return None


def _own_id(t: ModuleType) -> str:
    return next(id for id, module in _modules(t).items() if t.__name__ == f"{_package(t)}.{module}.types")


def _package(t: ModuleType) -> str:
    return t.__name__.rpartition(".")[0].rpartition(".")[0]


def _modules(t: ModuleType) -> dict[str, str]:
    """Return the modules of the versions of a package, by their ids; none for bindings of one version only."""
    return getattr(sys.modules.get(_package(t)), "REVISIONS", {})
