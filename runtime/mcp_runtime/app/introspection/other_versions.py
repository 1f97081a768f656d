"""Values of other protocol versions that functions return: they become those of the version of the app."""

from __future__ import annotations

import sys
from functools import cache
from types import ModuleType
from typing import Any

from ...errors import ConversionError, InvalidMessageError
from ...protocol.jsonrpc import to_plain
from .generated_types import wire_model


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
    from ...versions.conversion import chain_of  # Most apps need no conversion.

    try:
        converted = chain_of(_package(t), revision, _own_id(t)).convert_type(cls.__name__, to_plain(value))
    except ConversionError as error:
        raise InvalidMessageError(f"{cls.__name__} of {revision}: {error}") from None
    return own.model_validate(converted)


@cache
def _origin(cls: type[object], t: ModuleType) -> tuple[str, type[object]] | None:
    """Return the version and the generated class of a class that is one of another version than `t`, or inherits it."""
    versions = {f"{_package(t)}.{module}.types": id for id, module in _modules(t).items()}
    for base in cls.__mro__:
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
