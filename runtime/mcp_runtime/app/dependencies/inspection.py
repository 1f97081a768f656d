"""Find the dependencies of a function."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from ...errors import LocalError
from .markers import Dependency, Depends, marker_of

if TYPE_CHECKING:
    from .resolution import Dependencies


def dependencies_of(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], description: str
) -> Dependencies | None:
    """Return the dependencies of a function, None if it has none.

    Args:
        parameters: The parameters of the function.
        hints: Their type hints, with `Annotated`.
        description: What the function is, for errors.

    Raises LocalError for a marker in the wrong place, and for dependencies that cannot be called.
    """
    markers = {
        name: marker
        for name, parameter in parameters.items()
        if (marker := _marker(parameter, hints.get(name), description)) is not None
    }
    if not markers:
        return None
    from .resolution import Dependencies

    arguments = {name for name in parameters if name not in markers}
    return Dependencies(markers, hints, arguments, description)


def _marker(parameter: inspect.Parameter, hint: Any, description: str) -> Dependency | None:
    marker = marker_of(parameter.default)
    if marker is not None or hint is None:
        return marker
    if get_origin(hint) is Annotated:
        base, *metadata = get_args(hint)
        markers = [marker for item in metadata if (marker := marker_of(item)) is not None]
        if len(markers) > 1:
            raise LocalError(f"{description}: the parameter {parameter.name!r} has two dependencies: remove one")
        if any(item is Depends or (isinstance(item, type) and issubclass(item, Dependency)) for item in metadata):
            raise LocalError(
                f"{description}: the parameter {parameter.name!r} names no function: write Depends(function)"
            )
        if markers:
            return markers[0]
        hint = base
    if _has_marker(hint):
        raise LocalError(
            f"{description}: the marker of the parameter {parameter.name!r} is inside of another type: "
            f"write Annotated[{_text(hint)}, Depends(function)]"
        )
    return None


def _has_marker(hint: Any) -> bool:
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return any(marker_of(item) is not None for item in inner[1:]) or _has_marker(inner[0])
    return any(_has_marker(item) for item in inner)


def _text(hint: Any) -> str:
    """Return a type without its markers, as text."""
    return " | ".join(
        getattr(kind, "__name__", str(kind))
        for item in get_args(hint)
        for kind in [get_args(item)[0] if get_origin(item) is Annotated else item]
    ).replace("NoneType", "None")
