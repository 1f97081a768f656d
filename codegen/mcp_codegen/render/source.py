"""Print a template, and format the module it makes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import jinja2

from ..cache import cached_texts
from ..errors import CodegenError
from ..paths import Templates, generator_version
from .imports import tidy_imports
from .layout.formatter import MODE, format_texts

GENERATOR: Final = generator_version()
_BLACK: Final = version("black")


def format_module(text: str, what: str) -> str:
    """Return the module without the imports it does not need, formatted as black does."""
    return _formatted([_tidy(text, what)])[0]


def tidy_modules(files: Mapping[Path, str], folder: Path) -> dict[Path, str]:
    """Return the modules without the imports that they do not need; errors name their paths in the folder."""
    return {
        path: _tidy(text, path.relative_to(folder).as_posix()) if path.suffix == ".py" else text
        for path, text in files.items()
    }


def format_modules(files: Mapping[Path, str]) -> dict[Path, str]:
    """Return tidy modules, formatted as black does."""
    modules = {path: text for path, text in files.items() if path.suffix == ".py"}
    return {**files, **dict(zip(modules, _formatted(list(modules.values())), strict=True))}


def _formatted(texts: list[str]) -> list[str]:
    """Return modules, formatted as black does."""
    parts = [[_BLACK, MODE.get_cache_key(), text] for text in texts]
    return cached_texts("module", parts, lambda numbers: format_texts([texts[number] for number in numbers]))


def _tidy(text: str, what: str) -> str:
    try:
        return tidy_imports(text)
    except (SyntaxError, ValueError) as error:
        raise CodegenError(f"{what}: what the templates give is not Python: {error}") from error


def print_template(template: str, context: Mapping[str, Any], templates: Templates) -> str:
    """Return what a template gives. Raises CodegenError for a template that is broken, or asks for what is not
    there."""
    try:
        return _environment(templates).get_template(template).render(context)
    except jinja2.TemplateError as error:
        raise template_error(template, error) from error


def template_error(template: str, error: jinja2.TemplateError) -> CodegenError:
    """Return the error that says where a template is wrong."""
    name, line = getattr(error, "name", None) or template, getattr(error, "lineno", None)
    return CodegenError(f"the template {name}{f', line {line}' if line else ''}: {error.message}")


@cache
def _environment(templates: Templates) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # What is printed is Python, made safe by `literal` and `docstring`.
    )
