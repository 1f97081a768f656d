"""Print a template, and format the module it makes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import black
import jinja2
from black.mode import TargetVersion

from ..cache import cached
from ..errors import CodegenError
from ..paths import Templates, generator_version
from .imports import tidy_imports

MODE: Final = black.Mode(line_length=120, target_versions={TargetVersion.PY311})
GENERATOR: Final = generator_version()
_BLACK: Final = version("black")


def format_module(text: str, what: str) -> str:
    """Return the module without the imports it does not need, formatted by black."""
    try:
        return _formatted(tidy_imports(text))
    except (SyntaxError, ValueError) as error:
        raise CodegenError(f"{what}: what the templates give is not Python: {error}") from error


def tidy_modules(files: Mapping[Path, str], folder: Path) -> dict[Path, str]:
    """Return the modules without the imports that they do not need; errors name their paths in the folder."""
    return {
        path: _tidy(text, path.relative_to(folder).as_posix()) if path.suffix == ".py" else text
        for path, text in files.items()
    }


def format_modules(files: Mapping[Path, str]) -> dict[Path, str]:
    """Return tidy modules, formatted by black."""
    return {path: _formatted(text) if path.suffix == ".py" else text for path, text in files.items()}


def _formatted(text: str) -> str:
    """Return a module, formatted by black."""
    return cached("module", [_BLACK, MODE.get_cache_key(), text], partial(black.format_str, text, mode=MODE))


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
