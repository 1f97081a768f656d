"""The public functions and classes, the methods of the classes, and a call of everything with a wrong keyword."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any, Final

AREAS: Final = (
    "mcp_generated",
    *(f"mcp_generated.{area}" for area in "auth compat dependencies http middleware providers sampling".split()),
    *(f"mcp_generated.{area}" for area in "skills tasks testing transforms".split()),
)
LEVELS: Final = ("debug", "info", "warning", "error")
NEWEST: Final = "mcp_generated.v2026_07_28"
WRONG: Final = "no_such_keyword"
# Whatever a callable needs: `*ANY` fits each number of arguments.
_FILLERS: Final = "ANY: list[Any] = []"


def public_names() -> dict[str, Any]:
    """Return the public functions and classes, by their dotted names."""
    names = [(area, name) for area in AREAS for name in import_module(area).__all__]
    names += [(NEWEST, name) for name in ("Client", "Context", "Server", "SyncClient")]
    values = {f"{area}.{name}": getattr(import_module(area), name) for area, name in names}
    return {name: value for name, value in values.items() if inspect.isclass(value) or inspect.isroutine(value)}


def public_members(public_class: type[Any]) -> list[str]:
    """Return the methods and properties of a public class that this project defines."""
    return [
        name
        for base in public_class.__mro__
        if base.__module__.startswith(("mcp_runtime", "mcp_products", "mcp_generated"))
        for name, value in vars(base).items()
        if not name.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, (property, cached_property, classmethod, staticmethod)))
    ]


# What takes any keyword: the functions of a log have them as data, `forward` and `forward_raw` pass them on, `copy` has
# those of a dataclass, which checks them, `Depends` those of its function, the marks of files are checked when the file
# is loaded, and the mixin is never called itself. `model_copy` is there for frameworks, and checkers do not know it.
ANY_KEYWORD: Final = {
    "mcp_generated.compat.Context.model_copy",
    *(
        f"mcp_generated.{area}{name}.{level}"
        for area in ("", "compat.")
        for name in ("Context", "SyncContext")
        for level in LEVELS
    ),
    *(f"mcp_generated.{area}{name}" for area in ("", "compat.") for name in ("forward", "forward_raw")),
    *("mcp_generated.providers.prompt", "mcp_generated.providers.resource", "mcp_generated.tasks.TaskServerMixin"),
    *(f"mcp_generated.{area}Depends" for area in ("", "compat.", "dependencies.")),
    *(f"mcp_generated.{area}MiddlewareContext.copy" for area in ("", "compat.", "middleware.")),
}


def wrong_calls() -> Iterator[tuple[str, str]]:
    """Yield the dotted name of a public callable, and a line that calls it with a wrong keyword."""
    for dotted, value in public_names().items():
        yield dotted, f"{dotted}(*ANY, {WRONG}=1)"
        if not inspect.isclass(value):
            continue
        for name in dict.fromkeys(public_members(value)):
            if not isinstance(inspect.getattr_static(value, name), (property, cached_property)):
                yield f"{dotted}.{name}", f"def _(x: {dotted}) -> None: x.{name}(*ANY, {WRONG}=1)"


def wrong_program() -> tuple[str, dict[int, str]]:
    """Return a program of wrong calls, and the names that it calls by the numbers of its lines."""
    head = ["from typing import Any", *(f"import {area}" for area in (*AREAS, NEWEST)), _FILLERS]
    calls = [*wrong_calls()]
    names = {number: name for number, (name, _) in enumerate(calls, len(head) + 1)}
    return "\n".join([*head, *(line for _, line in calls)]) + "\n", names
