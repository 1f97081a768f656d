"""Add and remove an entry of a YAML file, with its comments and its layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import CodegenError, SchemaError
from ...json_types import JsonObject, is_object


def yaml_text(text: str, place: str) -> JsonObject:
    """Return the mapping of a YAML text. Raises SchemaError with the line if it is broken."""
    yaml = _yaml()
    try:
        document: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        raise SchemaError(f"{place}: is not YAML: {line}{getattr(error, 'problem', None) or error}") from None
    if document is not None and not is_object(document):
        raise SchemaError(f"{place}: must be a YAML mapping")
    return document or {}


def yaml_with_entry(text: str, section: str, name: str, entry: JsonObject, place: str) -> str:
    """Return the text with an entry added to a section, or replaced in it. Raises SchemaError."""
    config = yaml_text(text, place)
    entries: JsonObject = config.get(section) or {}
    expected: JsonObject = config | {section: entries | {name: entry}}
    lines = _without(_lines(text), text, section, name)

    def add(lines: list[str]) -> list[str]:
        value = _value_of("\n".join(lines), section)
        if value is None:
            return [*lines, f"{section}:", *_entry_lines(name, entry, "  ")]
        key, node = value
        children: list[tuple[Any, Any]] = node.value if node.id == "mapping" else []
        at = key.start_mark.line
        if not children:
            return [*lines[:at], f"{section}:", *_entry_lines(name, entry, "  "), *lines[at + 1 :]]
        first = children[0][0].start_mark
        return [*lines[: first.line], *_entry_lines(name, entry, " " * first.column), *lines[first.line :]]

    return _proved(add, lines, expected, place)


def yaml_without_entry(text: str, section: str, name: str, place: str) -> str:
    """Return the text without an entry of a section. Raises SchemaError."""
    config = yaml_text(text, place)
    rest = {key: value for key, value in config[section].items() if key != name}
    lines = _without(_lines(text), text, section, name)
    return _proved(lambda lines: lines, lines, config | {section: rest or None}, place)


def _proved(edit: Callable[[list[str]], list[str]], lines: list[str], expected: JsonObject, place: str) -> str:
    """Return the edited text if it has exactly the value that is expected. Raises SchemaError otherwise."""
    message = f"{place}: has a layout that cannot be edited safely; add the entry by hand (--dry-run prints it)"
    try:
        result = "\n".join(edit(lines)) + "\n"
        if yaml_text(result, place) == expected:
            return result
    except SchemaError:
        raise SchemaError(message) from None
    raise SchemaError(message)


def _without(lines: list[str], text: str, section: str, name: str) -> list[str]:
    """Return the lines without those of an entry, if there is one. Comments before the next entry remain."""
    value = _value_of(text if text.endswith("\n") else f"{text}\n", section)
    children: list[tuple[Any, Any]] = value[1].value if value is not None and value[1].id == "mapping" else []
    for key, node in children:
        if key.value == name:
            # A block ends where the next token begins, anything else in its own last line.
            is_block = getattr(node, "flow_style", True) is False
            end: int = node.end_mark.line + (not is_block)
            while end > key.start_mark.line + 1 and lines[end - 1].lstrip()[:1] in ("", "#"):
                end -= 1
            return [*lines[: key.start_mark.line], *lines[end:]]
    return lines


def _value_of(text: str, section: str) -> tuple[Any, Any] | None:
    """Return the key and the value of a section as nodes with their lines."""
    root = _yaml().compose(text)
    items: list[tuple[Any, Any]] = root.value if root is not None else []
    return next(((key, value) for key, value in items if key.value == section), None)


def _entry_lines(name: str, entry: JsonObject, indent: str) -> list[str]:
    text: str = _yaml().safe_dump({name: entry}, sort_keys=False, allow_unicode=True, width=10_000)
    return [indent + line for line in text.splitlines()]


def _lines(text: str) -> list[str]:
    return text.splitlines()


def _yaml() -> Any:
    try:
        import yaml
    except ImportError:
        raise CodegenError("a YAML file needs PyYAML: pip install pyyaml") from None
    return yaml
