"""Print templates, and format the modules that they make: imports that are needed, and the layout of black."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import black
import jinja2
from black.mode import TargetVersion

from ..cache import cached_texts
from ..errors import CodegenError
from ..helper_process import HelperProcess
from ..paths import Templates, generator_version
from .imports import tidy_imports

GENERATOR: Final = generator_version()
_BLACK: Final = version("black")
_MODE: Final = black.Mode(line_length=120, target_versions={TargetVersion.PY311})
_MIN_SHARE: Final = 100_000  # Characters. A second process imports black in the time that it takes to format these.


def format_module(text: str, what: str) -> str:
    """Return the module without the imports it does not need, formatted by black."""
    return _formatted([_tidy(text, what)], None)[0]


def tidy_modules(files: Mapping[Path, str], folder: Path) -> dict[Path, str]:
    """Return the modules without the imports that they do not need; errors name their paths in the folder."""
    return {
        path: _tidy(text, path.relative_to(folder).as_posix()) if path.suffix == ".py" else text
        for path, text in files.items()
    }


def format_modules(files: Mapping[Path, str], helper: HelperProcess | None = None) -> dict[Path, str]:
    """Return tidy modules, formatted by black; half of them by the helper, if there is one and there are many."""
    modules = {path: text for path, text in files.items() if path.suffix == ".py"}
    return {**files, **dict(zip(modules, _formatted(list(modules.values()), helper), strict=True))}


def _formatted(texts: list[str], helper: HelperProcess | None) -> list[str]:
    """Return the modules as black formats them, those that have not changed from the cache."""
    parts = [[_BLACK, _MODE.get_cache_key(), text] for text in texts]
    return cached_texts("module", parts, lambda numbers: _format_texts([texts[number] for number in numbers], helper))


def _format_texts(texts: Sequence[str], helper: HelperProcess | None) -> list[str]:
    if helper is None or sum(map(len, texts)) < 2 * _MIN_SHARE:
        return [format_text(text) for text in texts]
    shares = _halves(texts)
    helper.send("format", [texts[number] for number in shares[1]])
    formatted = {number: format_text(texts[number]) for number in shares[0]}
    for number in shares[1]:
        answer = helper.answer()
        formatted[number] = format_text(texts[number]) if answer is None else str(answer)
    return [formatted[number] for number in range(len(texts))]


def _halves(texts: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the numbers of the texts in two lists that take about the same time."""
    halves: tuple[list[int], list[int]] = ([], [])
    lengths = [0, 0]
    for number in sorted(range(len(texts)), key=lambda number: -len(texts[number])):
        shorter = int(lengths[1] < lengths[0])
        halves[shorter].append(number)
        lengths[shorter] += len(texts[number])
    return halves


def format_text(text: str) -> str:
    """Return a module as black formats it."""
    return black.format_str(text, mode=_MODE)


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
