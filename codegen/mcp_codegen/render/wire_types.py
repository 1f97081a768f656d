"""The types of one revision as the official Python SDK validates messages with them: a class for each object.

An inline object has the name of its property, with a number where that name is taken, in the order of the alphabet; so
does datamodel-code-generator, with which the SDK makes these modules from schema.json.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from ..model.forms import Form
from ..model.ir import PYTHON_TYPES, Alias, Array, Field, Map, Object, Plain, Ref, Revision, Type, Union, Values
from ..model.names import pascal, snake
from .official import constant
from .type_modules import dependencies_first
from .types import literal, sentence

_BOUNDS: Final = {"minimum": "ge", "maximum": "le", "min_length": "min_length", "max_length": "max_length"}


@dataclass(frozen=True)
class WireField:
    """A property: its attribute, and what is written after it."""

    name: str
    annotation: str
    doc: str

    @property
    def text(self) -> str:
        """Return the declaration."""
        return f"{self.name}: {self.annotation}"


@dataclass(frozen=True)
class WireType:
    """A class, or an alias if it has a `text`; `extra` is what becomes of unknown properties."""

    name: str
    doc: str = ""
    base: str = "WireModel"
    fields: tuple[WireField, ...] = ()
    extra: str = "ignore"
    text: str = ""
    needs: tuple[str, ...] = ()


class WireTypes:
    """The types of one revision; `definitions` are those that its schema has a name for."""

    def __init__(self, revision: Revision, form: Form, definitions: Collection[str]) -> None:
        """Give each inline object its name."""
        self._revision = revision
        self._form = form
        absent = form.places("wire_absent")
        definitions = [name for name in revision.types if name in definitions and name not in absent]
        self._named = form.texts("wire_name")
        self._definitions = definitions
        self._left_out = {name for name in definitions if form.leaves_out(revision.types[name])}
        self._taken = {self._named.get(name, name) for name in definitions}
        self._inline: dict[tuple[str, str], str] = {}
        self._circular = {name for name in sorted(definitions) if name in self._reached(name)}
        self._written: list[WireType] = []

    def all(self) -> list[WireType]:
        """Return all types, each after those that it needs."""
        for name in sorted(self._definitions):
            self._define(name)
        found = {written.name: written for written in self._written}
        needs = {name: [other for other in written.needs if other in found] for name, written in found.items()}
        return [found[name] for name in dependencies_first(needs)]

    def results(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each union of a final result and those before it."""
        for row in self._revision.methods:
            later = [interim.type for interim in row.interim if interim.type not in self._left_out]
            if row.result and later and row.kind == "request":
                arms = [row.result, *later]
                yield f"Any{row.result}", " | ".join(self._named.get(arm, arm) for arm in arms)

    def _reached(self, name: str) -> set[str]:
        """Return the aliases that an alias reaches through aliases."""
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            defined = self._revision.types[waiting.pop()]
            for other in _references(defined.type) if isinstance(defined, Alias) else ():
                if other not in seen and isinstance(self._revision.types[other], Alias):
                    seen.add(other)
                    waiting.append(other)
        return seen

    def _define(self, name: str) -> None:
        defined = self._revision.types[name]
        own = self._named.get(name, name)
        if isinstance(defined, Object):
            self._write_class(own, defined)
        elif defined.type == Map(Plain("any")):
            self._written.append(WireType(own, sentence(defined), extra="allow"))
        elif isinstance(defined.type, Ref) and self._form.row("wire_class", name):
            target = self._revision.types[defined.type.name]
            assert isinstance(target, Object)
            self._write_class(own, target)
        else:
            text = self._text(defined.type, (), inside=name)
            if name in self._circular and isinstance(defined.type, Union):
                text = f'TypeAliasType("{own}", {text})'
            needs = tuple(sorted(set(_WORD.findall(_STRING.sub("", text))) - {own}))
            self._written.append(WireType(own, sentence(defined), text=text, needs=needs))

    def _write_class(self, own: str, defined: Object) -> None:
        fields = tuple(self._field(defined, field) for field in sorted(defined.fields, key=lambda field: field.wire))
        needs = tuple(sorted({word for field in fields for word in _WORD.findall(_STRING.sub("", field.annotation))}))
        row = self._form.row("wire_extra", own)
        is_open = defined.open and "Result" not in self._ancestors(defined)
        extra = row.text if row is not None else "allow" if is_open else "ignore"
        is_inline = defined.name not in self._definitions
        base = self._named.get(defined.extends[0], defined.extends[0]) if is_inline and defined.extends else "WireModel"
        self._written.append(WireType(own, sentence(defined), base, fields, extra, needs=(base, *needs)))

    def _ancestors(self, defined: Object) -> set[str]:
        bases = [self._revision.types[name] for name in defined.extends]
        return {*defined.extends, *(n for base in bases if isinstance(base, Object) for n in self._ancestors(base))}

    def _field(self, owner: Object, field: Field) -> WireField:
        row = self._form.row("wire", f"{owner.name}.{field.wire}") or self._form.row("wire", f"*.{field.wire}")
        text = row.text if row is not None else self._text(field.type, (field.wire,))
        default = "" if field.required else constant(field.type) or "None"
        if default == "None" and "None" not in text.split(" | "):
            text = f"{text} | None"
        name = snake(re.sub(r"\W", "_", field.wire)) if "/" in field.wire else field.name
        if name != field.wire:
            text = f"Annotated[{text}, Field(alias={literal(field.wire)})]"
        return WireField(name, f"{text} = {default}" if default else text, sentence(field))

    def _text(self, type: Type, path: tuple[str, ...], inside: str = "") -> str:
        match type:
            case Ref(name) if name not in self._definitions:
                defined = self._revision.types[name]
                is_empty = isinstance(defined, Object) and not defined.fields
                return "dict[str, Any]" if is_empty else self._inline_name(name, path)
            case Ref(name) if inside and name in self._circular and inside in self._circular:
                return self._of_circle(name, path, inside)
            case Ref(name):
                return self._named.get(name, name)
            case Plain(kind):
                bounds = {key: getattr(type, name) for name, key in _BOUNDS.items() if getattr(type, name) is not None}
                return _bounded(PYTHON_TYPES[kind], bounds)
            case Values(values):
                return f"Literal[{', '.join(literal(v) if isinstance(v, str) else repr(v) for v in values)}]"
            case Array(items, most, least):
                bounds = {"min_length": least, "max_length": most}
                text = f"list[{self._text(items, (*path, 'Item'), inside)}]"
                return _bounded(text, {key: value for key, value in bounds.items() if value is not None})
            case Map(values):
                return f"dict[str, {self._text(values, path, inside)}]"
            case Union(arms):
                texts = list(dict.fromkeys(self._text(arm, path, inside) for arm in arms))
                # An integer would become a fraction, and be written as one.
                texts = ["int | float" if text == "float" else text for text in texts]
                texts.sort(key=lambda text: text == "None")
                is_quoted = any('"' in text and not text.startswith(("Literal", "Annotated")) for text in texts)
                return f"Union[{', '.join(texts)}]" if is_quoted else " | ".join(texts)

    def _of_circle(self, name: str, path: tuple[str, ...], inside: str) -> str:
        """Return an alias of a circle in another: its own text in the union of the circle, and else its name."""
        defined = self._revision.types[name]
        if name == inside or not isinstance(self._revision.types[inside], Alias):
            return f'"{name}"'
        if isinstance(defined, Alias) and not isinstance(defined.type, Union):
            return self._text(defined.type, path, inside)
        return name

    def _inline_name(self, name: str, path: tuple[str, ...]) -> str:
        """Return the name of an inline object at a place, and write its class when it is met first."""
        wanted = pascal(path[0]) + "".join(path[1:])
        if (wanted, name) not in self._inline:
            own, number = wanted, 0
            while own in self._taken:
                number += 1
                own = f"{wanted}{number}"
            self._taken.add(own)
            self._inline[wanted, name] = own
            defined = self._revision.types[name]
            assert isinstance(defined, Object)
            self._write_class(own, defined)
        return self._inline[wanted, name]


_WORD: Final = re.compile(r"\w+")
_STRING: Final = re.compile(r'"[^"]*"')


def _references(type: Type) -> Iterator[str]:
    match type:
        case Ref(name):
            yield name
        case Array(items):
            yield from _references(items)
        case Map(values):
            yield from _references(values)
        case Union(arms):
            for arm in arms:
                yield from _references(arm)
        case _:
            return


def _bounded(text: str, bounds: dict[str, object]) -> str:
    keywords = ", ".join(f"{key}={value!r}" for key, value in bounds.items())
    return f"Annotated[{text}, Field({keywords})]" if keywords else text
