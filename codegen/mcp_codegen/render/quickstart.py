"""From templates/quickstart/weather.toml to the programs of a language."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..errors import CodegenError
from ..paths import data_path, read_toml

Data = Mapping[str, Any]
_IN_BRACES: Final = re.compile(r"\{([\w.]+)\}")


def read_data() -> Data:
    """Return the data of the quickstart."""
    return read_toml(data_path("templates") / "quickstart" / "weather.toml")


def render(data: Data, language: str, revision: str | None, stateless: bool) -> dict[str, str]:
    """Return the texts of a language's files by their paths. Without a revision, client and server agree on one.

    Raises CodegenError for a language that has no templates.
    """
    if language not in data["languages"]:
        raise CodegenError(f"{language!r} has no quickstart; choose {', '.join(data['languages'])}")
    row = data["languages"][language]
    folder = data_path("templates") / "quickstart"
    environment = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= _FILTERS
    command, *arguments = row["server"].split()
    host = {"mcpServers": {data["server"]["name"]: {"command": command, "args": arguments}}}
    tools = [{"follow": "", "width": _width(tool["parameters"]), **tool} for tool in data["tools"]]
    names = {**data, "tools": tools, "language": row, "revision": revision, "stateless": stateless, "host": host}
    templates = {path: f"{language}/{name}.jinja2" for path, name in row["files"].items()}
    templates["README.md"] = "README.md.jinja2"
    return {path: environment.get_template(template).render(names) for path, template in templates.items()}


def _width(parameters: Sequence[Data]) -> int:
    """Return the length of the longest name: gofmt sets what follows the names below each other."""
    return max(len(_camel(parameter["name"])) for parameter in parameters)


def _replaced(text: str, name: Callable[[str], str], quoted: Callable[[str], str]) -> str:
    """Return a text whose braces hold what `name` makes of a path."""
    parts = _IN_BRACES.split(text)
    return "".join(name(part) if odd % 2 else quoted(part) for odd, part in enumerate(parts))


def _keys(path: str) -> str:
    return "".join(f'["{key}"]' for key in path.split("."))


def _python(text: str, item: str = "") -> str:
    """Return an f-string without its prefix; keys of an item are in single quotes within it."""

    def name(path: str) -> str:
        value = item + _keys(path).replace('"', "'") if item else {"base": "BASE"}.get(path, path)
        return "{" + value + "}"

    return f'"{_replaced(text, name, str)}"'


def _template(text: str, item: str = "") -> str:
    """Return a template literal of JavaScript."""
    return f"`{_replaced(text, lambda path: '${' + (f'{item}.{path}' if item else path) + '}', str)}`"


def _sprint(text: str, item: str = "") -> str:
    """Return a call of Go's `fmt.Sprintf`."""
    paths = _IN_BRACES.findall(text)
    values = [f"at({item}, {_words(path)})" if item else _go_name(path) for path in paths]
    return f"fmt.Sprintf({json.dumps(_replaced(text, lambda _: '%v', str))}, {', '.join(values)})"


def _go_name(path: str) -> str:
    return "base" if path == "base" else f"params.{_camel(path)}"


def _words(path: str) -> str:
    return ", ".join(json.dumps(key) for key in path.split("."))


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _field(parameter: Data) -> str:
    """Return the arguments of pydantic's Field."""
    bounds = {"minimum": "ge", "maximum": "le"}
    words = [f"{bounds[key]}={parameter[key]}" for key in bounds if key in parameter]
    words += [f"pattern={json.dumps(parameter['pattern'])}"] if "pattern" in parameter else []
    return ", ".join([*words, f"description={json.dumps(parameter['description'])}"])


def _zod(parameter: Data) -> str:
    """Return the schema of zod."""
    bounds = {"minimum": "min({})", "maximum": "max({})", "pattern": "regex(/{}/)"}
    calls = "".join("." + call.format(parameter[key]) for key, call in bounds.items() if key in parameter)
    return f"z.{parameter['type']}(){calls}.describe({json.dumps(parameter['description'])})"


def _go_field(parameter: Data) -> str:
    """Return the schema of Go's jsonschema."""
    bounds = {"minimum": "Minimum: number({})", "maximum": "Maximum: number({})", "pattern": 'Pattern: "{}"'}
    words = [form.format(parameter[key]) for key, form in bounds.items() if key in parameter]
    quoted = json.dumps(parameter["description"])
    return "{" + ", ".join([f'Type: "{parameter["type"]}"', *words, f"Description: {quoted}"]) + "}"


_FILTERS: Final[dict[str, Callable[..., str]]] = {
    "json": partial(json.dumps, ensure_ascii=False),
    **{"keys": _keys, "python": _python, "template": _template, "sprint": _sprint, "words": _words, "camel": _camel},
    **{"field": _field, "zod": _zod, "gofield": _go_field},
}
