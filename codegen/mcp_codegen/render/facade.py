"""The front door of a generated package: `from mcp_generated import App, connect`, and its areas.

facade.toml beside this module is the one place that names all products.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from ..model.ir import Revision
from ..paths import Templates, read_toml
from .package import converter_module
from .source import GENERATOR, print_template
from .types import literal

# What the index defines itself.
_FIXED: Final = ("CONVERSIONS", "DEFAULT_REVISION", "LIFECYCLES", "REVISIONS", "converter")


@cache
def _tables() -> dict[str, dict[str, Any]]:
    """Return the tables of facade.toml: `names`, `compat`, `app`, `areas`, `products` and `extras`."""
    return read_toml(Path(__file__).with_suffix(".toml"))


def _public(names: Mapping[str, Iterable[str]]) -> list[str]:
    return [name for of_module in names.values() for name in of_module]


def _places(table: str) -> dict[str, tuple[str, str]]:
    """Return the module of each name of a table, and its name there."""
    rows = ((module, entry.partition("=")) for module, names in _tables()[table].items() for entry in names)
    return {name: (module, other or name) for module, (name, _, other) in rows}


def render_index(
    revisions: list[Revision], neighbours: list[tuple[Revision, Revision]], templates: Templates, app: Revision | None
) -> str:
    """Return the `__init__.py` of the package that holds the revisions, with the names of the app in one of them, or
    without them. `connect` returns a client of that revision, or of the newest."""
    default, tables = app or revisions[-1], _tables()
    of_app = tables["app"] if app is not None else {}
    context = {
        "revisions": [(literal(each.id), each.module, literal(each.lifecycle.style)) for each in revisions],
        "default": default,
        "default_id": literal(default.id),
        "conversions": [(literal(a.id), literal(b.id), converter_module(a, b)) for a, b in neighbours],
        "generator": GENERATOR,
        "app": of_app,
        "names": tables["names"],
        "products": tables["products"],
        "extras": tables["extras"],
        "public": sorted([*_FIXED, *(of_app or ("connect",)), *_public(tables["names"])]),
    }
    return print_template("index.py.jinja2", context, templates)


def render_areas(templates: Templates) -> dict[str, str]:
    """Return the modules that export an area of the package, by name."""
    files: dict[str, str] = {}
    for name, area in _tables()["areas"].items():
        context = {**area, "public": sorted(_public(area["names"])), "generator": GENERATOR}
        files[f"{name}.py"] = print_template("area.py.jinja2", context, templates)
    return files


def render_compat(newest: Revision, handshake: Revision, templates: Templates) -> dict[str, str]:
    """Return the modules with the names of the official SDK, by name.

    `handshake` is the newest revision with a handshake, which has requests that the newest revision has not.
    """
    official = _places("compat")
    context: dict[str, Any] = {"newest": newest.module, "handshake": handshake.module, "generator": GENERATOR}
    context |= {"names": _places("names") | official, "official": official}
    texts = {"compat/__init__.py": "compat.py.jinja2", "compat/types.py": "compat_types.py.jinja2"}
    return {name: print_template(template, context, templates) for name, template in texts.items()}
