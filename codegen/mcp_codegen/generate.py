"""The files of the generated packages, as text by path: those of all revisions, of the package around them, and of the
extensions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Final

from .catalog import SchemaCatalog
from .extensions.mount import MountedExtension, mounted_extensions
from .model.ir import Revision
from .paths import Templates
from .render.core_schemas import render_core_schemas
from .render.facade import render_areas, render_compat, render_index
from .render.official import render_official
from .render.package import (
    RevisionPackage,
    converter_module,
    render_app,
    render_client,
    render_converter,
    render_converters_package,
    render_multi,
    supports_apps,
)
from .render.source import GENERATOR, format_modules
from .render.type_modules import split_types

_HEADER_LINES: Final = 3

_LAZY_TYPES: Final = """
from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

if TYPE_CHECKING:
    from . import types as types

__all__ = ["types"]

__getattr__, __dir__ = lazy_module(__name__, modules=("types",), names={})
"""


def generate(
    schemas: SchemaCatalog,
    templates: Templates,
    output: Path,
    revisions: Iterable[str],
    progress: Callable[[str], None] = lambda revision: None,
) -> dict[Path, str]:
    """Return the text of each file by path. Nothing is written.

    `progress` is called with the id of each revision once its types are rendered. The index of the output folder names
    the revisions generated now and those that exist there already.
    """
    chosen = _checked(schemas, revisions)
    packages = _packages(schemas, templates, output, chosen)
    files = _other_modules(schemas, templates, output, chosen, packages)
    for folder, package in packages.items():
        files |= _types(folder, package)
        if isinstance(package, RevisionPackage):
            progress(package.revision.id)
    return dict(sorted(format_modules(files, output).items()))


def _checked(schemas: SchemaCatalog, revisions: Iterable[str]) -> list[str]:
    """Return the ids of revisions that exist, if all rows of the overlay are needed."""
    chosen = [schemas.require_revision(revision) for revision in revisions]
    schemas.check_overlay()
    return chosen


def _packages(
    schemas: SchemaCatalog, templates: Templates, output: Path, revisions: Iterable[str]
) -> dict[Path, RevisionPackage | ExtensionPackage]:
    """Return the packages of revisions by their folders, each before those of the extensions that are mounted on it."""
    packages: dict[Path, RevisionPackage | ExtensionPackage] = {}
    for revision in revisions:
        read = schemas.revision(revision)
        packages[output / read.module] = RevisionPackage(read, templates)
        for mounted, sha256 in mounted_extensions(schemas, revision):
            folder = output / "extensions" / mounted.manifest.name
            packages[folder] = ExtensionPackage(mounted, sha256, templates)
    return packages


def _types(folder: Path, package: RevisionPackage | ExtensionPackage) -> dict[Path, str]:
    """Return the modules of the types of a package."""
    modules = {"types.py": package.types()}
    if isinstance(package, RevisionPackage):
        modules = split_types(modules, package.revision)
    return {folder / name: text for name, text in modules.items()}


def _other_modules(
    schemas: SchemaCatalog,
    templates: Templates,
    output: Path,
    chosen: list[str],
    packages: Mapping[Path, RevisionPackage | ExtensionPackage],
) -> dict[Path, str]:
    """Return the modules without those of types."""
    files: dict[Path, str] = {}
    for folder, package in packages.items():
        files |= {folder / name: text for name, text in package.modules().items()}
        if isinstance(package, RevisionPackage):
            files[folder / "core_schemas.py"] = render_core_schemas(package.revision, templates)
        else:
            files[folder.parent / "__init__.py"] = render_extensions()
    all_revisions = [schemas.revision(revision) for revision in schemas.pins]
    indexed = [
        revision
        for revision in all_revisions
        if revision.id in chosen or (output / revision.module / "__init__.py").is_file()
    ]
    neighbours = _neighbours(all_revisions, indexed)
    for older, newer in neighbours:
        steps = [schemas.steps[newer.id, older.id], schemas.steps[older.id, newer.id]]
        files[output / "converters" / f"{converter_module(older, newer)}.py"] = render_converter(
            older, newer, steps, templates
        )
    if neighbours:
        files[output / "converters" / "__init__.py"] = render_converters_package(templates)
    files |= {output / name: text for name, text in render_areas(templates).items()}
    app_revision = _app_revision(schemas, all_revisions)
    if app_revision not in indexed:
        app_revision = None
    if app_revision is not None:
        files[output / "app.py"] = render_app(app_revision, templates)
        handshakes = [revision for revision in indexed if revision.lifecycle.style == "handshake"]
        if handshakes:
            compat = render_compat(app_revision, handshakes[-1], templates)
            official = render_official(all_revisions, schemas.forms, templates)
            files |= {output / name: text for name, text in (compat | official).items()}
        files[output / "client.py"] = render_client(app_revision, templates)
        files[output / "multi.py"] = render_multi(app_revision, templates)
    index = render_index(indexed, neighbours, templates, app_revision)
    return files | {output / "__init__.py": index, output / "py.typed": ""}


def _app_revision(schemas: SchemaCatalog, revisions: list[Revision]) -> Revision | None:
    """Return the revision in which the app is written: that of the overlay, or the newest that has all that apps
    offer."""
    form = schemas.app_form
    if form:
        return schemas.revision(form)
    return next((revision for revision in reversed(revisions) if supports_apps(revision)), None)


def _neighbours(all_revisions: list[Revision], indexed: list[Revision]) -> list[tuple[Revision, Revision]]:
    """Return each two neighbouring revisions, from the oldest to the newest that is generated."""
    if len(indexed) < 2:
        return []
    return list(pairwise(all_revisions[all_revisions.index(indexed[0]) : all_revisions.index(indexed[-1]) + 1]))


# The files of an extension's package: like those of a revision, with the types of the core protocol imported.


class ExtensionPackage:
    """The files of an extension by name, not formatted. An extension without messages has types only."""

    def __init__(self, mounted: MountedExtension, sha256: str, templates: Templates) -> None:
        self.revision = mounted.revision
        self.own = mounted.added_types
        self._mounted = mounted
        self._sha256 = sha256
        module = f"__name__.rpartition({'.extensions.'!r})[0] + {f'.{mounted.base.module}.methods'!r}"
        base_methods = {row.method for row in mounted.base.methods}
        new = frozenset(row.method for row in mounted.revision.methods) - base_methods
        added = frozenset[str]() if mounted.manifest.sides else new
        self._package = RevisionPackage(mounted.revision, templates, module, mounted.added_types, added)

    def modules(self) -> dict[str, str]:
        """Return the modules other than that of the types."""
        if self._mounted.manifest.roles:
            files = self._package.modules()
        else:
            name, base = self._mounted.manifest.name, self._mounted.base.id
            doc = f'"""The types of the extension {name} for MCP {base}; they are loaded when they are used."""\n\n'
            files = {"__init__.py": _HEADER_LINES * "#\n" + doc + _LAZY_TYPES}
        return {file: _headed(text, self._mounted, self._sha256) for file, text in files.items()}

    def types(self) -> str:
        """Return types.py, with the types of the core protocol imported."""
        return _headed(_own_types(self._package.types(), self._mounted), self._mounted, self._sha256)


def render_extensions() -> str:
    """Return the __init__.py of the package of the extensions, each a package of its own."""
    return (
        f"# Generated by mcp-codegen {GENERATOR}; do not edit.\n"
        '"""Extensions of the protocol, each for one revision. Importing this package loads none of them."""\n'
    )


def _headed(text: str, mounted: MountedExtension, sha256: str) -> str:
    """Return the module with a header that names the extension."""
    name, core = mounted.manifest.name, mounted.base.id
    header = [
        f"# The extension {name} on MCP {core}. Generated by mcp-codegen {GENERATOR}; do not edit.",
        f"# Source: schema/extensions/{name}/schema.json, sha256 {sha256}.",
        f"# Regenerate with: mcp-codegen --revision {core}",
    ]
    return "\n".join([*header, *text.split("\n")[_HEADER_LINES:]])


def _own_types(text: str, mounted: MountedExtension) -> str:
    """Return the module with the types of the extension only; those of the core protocol are imported under the same
    names."""
    lines, body = text.split("\n"), ast.parse(text).body
    imports = [node for node in body if isinstance(node, (ast.ImportFrom, ast.Import))]
    declared = body[body.index(imports[-1]) + 1 :]
    own = [line for node in declared for line in (*lines[_first_line(node) : node.end_lineno], "")]
    # The star exports all types of the core protocol; those that are used here are named as well, so that readers and
    # linters know where they come from.
    used = {part.id for node in declared for part in ast.walk(node) if isinstance(part, ast.Name)}
    names = ", ".join(f"{name} as {name}" for name in sorted(used & mounted.base.types.keys()))
    module = f"...{mounted.base.module}.types"
    core = f"from {module} import *" + (f"\nfrom {module} import {names}" if names else "")
    extension, base = mounted.manifest.name, mounted.base.id
    doc = f'"""The types of the extension {extension} for MCP {base}, and those of the core protocol."""'
    header = takewhile(lambda line: line.startswith("#"), lines)
    return "\n".join([*header, doc, "", *map(ast.unparse, imports), core, "", *own])


def _first_line(node: ast.stmt) -> int:
    """Return the index of the first line of a declaration, with its decorators."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
