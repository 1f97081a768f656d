"""Revisions and an output folder go in, the files of their packages come out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

from .catalog import SchemaCatalog
from .extensions.catalog import extensions
from .extensions.render import render_extension, render_extensions
from .model.ir import Revision
from .paths import Templates
from .render.package import (
    render_app,
    render_areas,
    render_index,
    render_revision,
    render_converter,
    render_converters_package,
    converter_module,
)


def generate(
    schemas: SchemaCatalog,
    templates: Templates,
    output: Path,
    revisions: Iterable[str],
    progress: Callable[[str], None] = lambda revision: None,
) -> dict[Path, str]:
    """The text of every file, by path; `progress` is told each revision when it is done. Nothing is written.

    The index of the output folder names the revisions generated now and those that are there already.
    """
    chosen = [schemas.known(revision) for revision in revisions]
    schemas.check_overlay()
    files: dict[Path, str] = {}
    for revision in chosen:
        read = schemas.revision(revision)
        for name, text in render_revision(read, templates).items():
            files[output / read.module / name] = text
        for mounted, sha256 in extensions(schemas, revision):
            for name, text in render_extension(mounted, sha256, templates).items():
                files[output / "extensions" / mounted.manifest.name / name] = text
            files[output / "extensions" / "__init__.py"] = render_extensions()
        progress(revision)
    every = [schemas.revision(revision) for revision in schemas.pins]
    indexed = [each for each in every if each.id in chosen or (output / each.module / "__init__.py").is_file()]
    pairs = _pairs(every, indexed)
    for older, newer in pairs:
        steps = [schemas.steps[newer.id, older.id], schemas.steps[older.id, newer.id]]
        files[output / "converters" / f"{converter_module(older, newer)}.py"] = render_converter(
            older, newer, steps, templates
        )
    if pairs:
        files[output / "converters" / "__init__.py"] = render_converters_package(templates)
    files |= {output / name: text for name, text in render_areas(templates).items()}
    app = render_app(every[-1], templates) if every[-1] in indexed else None
    if app is not None:
        files[output / "app.py"] = app
    index = render_index(indexed, pairs, templates, app is not None)
    return files | {output / "__init__.py": index, output / "py.typed": ""}


def _pairs(every: list[Revision], indexed: list[Revision]) -> list[tuple[Revision, Revision]]:
    """The neighbours from the oldest revision that is generated to the newest."""
    if len(indexed) < 2:
        return []
    return list(pairwise(every[every.index(indexed[0]) : every.index(indexed[-1]) + 1]))
