"""Forms that a server asks its user to fill in, at the terminal, field by field."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import IO, Any, Final

from mcp_runtime.errors import printable
from mcp_runtime.protocol.models import is_list, is_object

_TERMINAL: Final = ("CONIN$", "CONOUT$") if sys.platform == "win32" else ("/dev/tty", "/dev/tty")
_YES: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_DECLINED: Final = {"action": "decline"}
_CANCELLED: Final = {"action": "cancel"}
_LIMITS: Final = {"minimum": "from", "maximum": "to", "minLength": "at least", "maxLength": "at most", "format": ""}


def answer_at_terminal(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of the user to a form, or to the request to open a URL. The end of the input cancels it."""
    with (
        open(_TERMINAL[0], encoding="utf-8", errors="replace") as source,
        open(_TERMINAL[1], "w", encoding="utf-8") as sink,
    ):
        return Form(source, sink).answer(params)


class Form:
    """A conversation with the user; what the server has written is shown without characters that steer a terminal."""

    def __init__(self, source: IO[str], sink: IO[str]) -> None:
        """Read lines from `source`, and write to `sink`."""
        self._source = source
        self._sink = sink

    def answer(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of the request with these params, as JSON."""
        try:
            self._write(f"\nthe server asks: {params.get('message', '')}\n")
            if (url := params.get("url")) is not None:
                self._write(f"open this address in a browser: {url}\n")
                return {"action": "accept"} if self._confirm("have you opened it?") else dict(_DECLINED)
            if not self._confirm("fill in the form?"):
                return dict(_DECLINED)
            schema: Mapping[str, Any] = params.get("requestedSchema") or {}
            return {"action": "accept", "content": self._fields(schema)}
        except EOFError:
            self._write("\n")
            return dict(_CANCELLED)

    def _fields(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        required: list[str] = schema.get("required") or []
        content: dict[str, Any] = {}
        fields: Mapping[str, Any] = schema.get("properties") or {}
        for name, field in fields.items():
            value = self._field(name, field, name in required)
            if value is not None:
                content[name] = value
        return content

    def _field(self, name: str, field: Mapping[str, Any], is_required: bool) -> Any:
        """Return the value of a field; None if the user leaves an optional one out."""
        label = field.get("title") or name
        if description := field.get("description"):
            self._write(f"  {description}\n")
        choices = _choices(field)
        for number, (value, title) in enumerate(choices, 1):
            self._write(f"    {number}. {title}{'' if title == value else f' ({value})'}\n")
        default = field.get("default")
        shown = "" if default is None else f" [{_text(default)}]"
        kind = _kind(field) + ("" if is_required or default is not None else ", optional")
        while True:
            text = self._line(f"  {label} ({kind}){shown}: ")
            if not text:
                if default is not None or not is_required:
                    return default
                reason = "a value is required"
            else:
                try:
                    return _value(text, field, [value for value, _ in choices])
                except ValueError as error:
                    reason = str(error)
            self._write(f"  {reason}\n")

    def _confirm(self, question: str) -> bool:
        while True:
            text = self._line(f"{question} [Y/n] (Ctrl-D cancels) ").lower()
            if not text or text in _YES:
                return _YES.get(text, True)

    def _line(self, prompt: str) -> str:
        self._write(prompt)
        line = self._source.readline()
        if not line:
            raise EOFError
        return line.strip()

    def _write(self, text: str) -> None:
        self._sink.write(printable(text))
        self._sink.flush()


def _choices(field: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the values that a field allows, with their titles; none if it allows others."""
    items = field.get("items") if field.get("type") == "array" else field
    if not is_object(items):
        return []
    for key in ("oneOf", "anyOf"):
        if is_list(options := items.get(key)):
            return [(str(item["const"]), str(item.get("title", item["const"]))) for item in options if "const" in item]
    values = [str(value) for value in items.get("enum") or ()]
    titles = [str(title) for title in items.get("enumNames") or values]
    return [*zip(values, titles, strict=False)]


def _kind(field: Mapping[str, Any]) -> str:
    kind = str(field.get("type", "string"))
    limits = [f"{word} {field[key]}".strip() for key, word in _LIMITS.items() if field.get(key) is not None]
    words = {"boolean": "y/n", "array": "several, with commas between them"}
    return ", ".join([words.get(kind, kind), *limits])


def _text(value: Any) -> str:
    if is_list(value):
        return ", ".join(map(str, value))
    return ("y" if value else "n") if isinstance(value, bool) else str(value)


def _value(text: str, field: Mapping[str, Any], choices: list[str]) -> Any:
    """Return the value of what the user has written. Raises ValueError with the reason if it is none of the field."""
    kind = field.get("type", "string")
    if kind == "array":
        return [_choice(part.strip(), choices) for part in text.split(",") if part.strip()]
    if choices:
        return _choice(text, choices)
    if kind == "boolean":
        if text.lower() not in _YES:
            raise ValueError("write y or n")
        return _YES[text.lower()]
    if kind in ("integer", "number"):
        return _number(text, field, kind)
    low, high = field.get("minLength", 0), field.get("maxLength")
    if len(text) < low or (high is not None and len(text) > high):
        raise ValueError(f"write {low} to {high} characters" if high is not None else f"write {low} characters or more")
    return text


def _number(text: str, field: Mapping[str, Any], kind: str) -> int | float:
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int if kind == "integer" else (int, float)):
        raise ValueError(f"{text!r} is not a {kind}")
    if value < field.get("minimum", value) or value > field.get("maximum", value):
        raise ValueError(f"write a number{_range(field)}")
    return value


def _range(field: Mapping[str, Any]) -> str:
    return "".join(f" {_LIMITS[key]} {field[key]}" for key in ("minimum", "maximum") if key in field)


def _choice(text: str, choices: list[str]) -> str:
    """Return the choice with this number or this value."""
    if text in choices:
        return text
    if text.isdecimal() and 1 <= int(text) <= len(choices):
        return choices[int(text) - 1]
    raise ValueError(f"{text!r} is none of the choices")
