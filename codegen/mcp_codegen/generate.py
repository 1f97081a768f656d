"""The files of the generated packages, as text by path."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from .catalog import SchemaCatalog
from .extensions.catalog import mounted_extensions
from .extensions.render import render_extension, render_extensions
from .helper_process import HelperProcess, answer_parent, processors
from .model.ir import Revision
from .paths import Templates
from .render.core_schemas import render_core_schemas
from .render.package import (
    converter_module,
    render_app,
    render_areas,
    render_compat,
    render_converter,
    render_converters_package,
    render_index,
    render_multi,
    render_revision,
    supports_apps,
)
from .render.source import format_modules, tidy_modules
from .render.type_modules import split_types


def generate(
    schemas: SchemaCatalog,
    templates: Templates,
    output: Path,
    revisions: Iterable[str],
    progress: Callable[[str], None] = lambda revision: None,
    *,
    parallel: bool = False,
) -> dict[Path, str]:
    """Return the text of each file by path. Nothing is written.

    `progress` is called with the id of each revision once its files are rendered. The index of the output folder names
    the revisions generated now and those that exist there already. With `parallel`, a second process renders all
    revisions but the first and the last one, where there are two processors: these take as long as the others.
    """
    chosen = list(revisions)
    others = (chosen[1:-1] or chosen[:-1]) if parallel and processors() > 1 else []
    with HelperProcess("mcp_codegen.generate", _task(schemas, templates, output, others) if others else None) as helper:
        own_texts = _module_texts(schemas, templates, output, chosen, frozenset(others), progress)
        files = format_modules(own_texts)
        answer = helper.answer()
    if answer is not None:
        files |= {Path(path): text for path, text in answer.items()}
    elif others:  # An error of the other process is raised here.
        files |= format_modules(_texts_of(schemas, templates, output, others, lambda revision: None))
    for revision in others:
        progress(revision)
    return dict(sorted(files.items()))


def module_texts(
    schemas: SchemaCatalog, templates: Templates, output: Path, revisions: Iterable[str]
) -> dict[Path, str]:
    """Return what `generate` returns, before it is formatted."""
    return _module_texts(schemas, templates, output, revisions, frozenset(), lambda revision: None)


def _texts_of(
    schemas: SchemaCatalog,
    templates: Templates,
    output: Path,
    revisions: Iterable[str],
    progress: Callable[[str], None],
) -> dict[Path, str]:
    """Return the modules of revisions and of the extensions that are mounted on them, tidy and not formatted."""
    files: dict[Path, str] = {}
    for revision in revisions:
        read = schemas.revision(revision)
        for name, text in split_types(render_revision(read, templates), read).items():
            files[output / read.module / name] = text
        files[output / read.module / "core_schemas.py"] = render_core_schemas(read, templates)
        for mounted, sha256 in mounted_extensions(schemas, revision):
            for name, text in render_extension(mounted, sha256, templates).items():
                files[output / "extensions" / mounted.manifest.name / name] = text
            files[output / "extensions" / "__init__.py"] = render_extensions()
        progress(revision)
    return tidy_modules(files, output)


def _module_texts(
    schemas: SchemaCatalog,
    templates: Templates,
    output: Path,
    revisions: Iterable[str],
    others: frozenset[str],
    progress: Callable[[str], None],
) -> dict[Path, str]:
    """Return the modules of the revisions, without those of `others`, and the modules of all revisions."""
    chosen = [schemas.require_revision(revision) for revision in revisions]
    schemas.check_overlay()
    own = [revision for revision in chosen if revision not in others]
    texts = _texts_of(schemas, templates, output, own, progress)
    files: dict[Path, str] = {}
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
    app_revision = next((revision for revision in reversed(all_revisions) if supports_apps(revision)), None)
    app = render_app(app_revision, templates) if app_revision is not None and app_revision in indexed else None
    if app_revision is not None and app is not None:
        files[output / "app.py"] = app
        handshakes = [revision for revision in indexed if revision.lifecycle.style == "handshake"]
        if handshakes:
            compat = render_compat(app_revision, handshakes[-1], templates)
            files |= {output / name: text for name, text in compat.items()}
        files[output / "multi.py"] = render_multi(app_revision, templates)
    index = render_index(indexed, neighbours, templates, app is not None)
    return texts | tidy_modules(files | {output / "__init__.py": index, output / "py.typed": ""}, output)


def _neighbours(all_revisions: list[Revision], indexed: list[Revision]) -> list[tuple[Revision, Revision]]:
    """Return each two neighbouring revisions, from the oldest to the newest that is generated."""
    if len(indexed) < 2:
        return []
    return list(pairwise(all_revisions[all_revisions.index(indexed[0]) : all_revisions.index(indexed[-1]) + 1]))


def _task(schemas: SchemaCatalog, templates: Templates, output: Path, revisions: list[str]) -> dict[str, Any]:
    """Return the task of the other process as JSON."""
    return {
        "schemas": str(schemas.root.absolute()),
        "templates": [str(folder.absolute()) for folder in templates],
        "output": str(output),
        "revisions": revisions,
    }


def answer_task(task: dict[str, Any]) -> dict[str, str]:
    """Return the formatted modules of the revisions of a task, by path."""
    templates = tuple(map(Path, task["templates"]))
    schemas, output = SchemaCatalog(Path(task["schemas"])), Path(task["output"])
    files = format_modules(_texts_of(schemas, templates, output, task["revisions"], lambda revision: None))
    return {str(path): text for path, text in files.items()}


if __name__ == "__main__":
    answer_parent(answer_task)
