"""The distribution `mcp_types` of the official Python SDK: types, method tables, versions and validators, as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ..model.ir import PYTHON_TYPES, Alias, Array, Field, Map, Method, Object, Plain, Ref, Revision, Type, Union, Values
from ..model.names import pascal, snake
from ..model.overlay import Form
from ..paths import Templates
from .merged_types import Protocol, merge
from .official import Declarations, constant, module_text, shown
from .source import GENERATOR, format_module, format_text, print_template
from .type_modules import dependencies_first
from .types import literal, sentence, value_text

# The modules of a package, by their templates; that of `_types` is the one of `compat`.
_MODULES: Final = ("__init__", "jsonrpc", "methods", "version", "_wire_base")
_INDEXES: Final = ("__init__.py", "jsonrpc.py")  # What they import is for others.
_KEPT: Final = ("py.typed",)
_SIDES: Final = {"CLIENT": "client_to_server", "SERVER": "server_to_client"}
_CACHED: Final = "CacheableResult"
_BOUNDS: Final = {"minimum": "ge", "maximum": "le", "min_length": "min_length", "max_length": "max_length"}
_WORD: Final = re.compile(r"\w+")
_STRING: Final = re.compile(r'"[^"]*"')


@dataclass(frozen=True)
class Table:
    """A table of methods: its name, the type of its values, and its rows by key, as Python."""

    name: str
    values: str
    doc: str
    rows: tuple[tuple[str, str], ...]
    keys: str = "tuple[str, str]"


class MethodTables:
    """The tables of methods by version, and those of all versions together."""

    def __init__(self, protocol: Protocol, wire: Mapping[str, str]) -> None:
        """Prepare the tables; `wire` has the module that validates each version."""
        self._protocol = protocol
        self._form = protocol.form
        self._wire = wire
        self._declarations = Declarations(protocol)

    def all(self) -> Iterator[Table]:
        """Yield the tables in their order."""
        model, union = "type[BaseModel]", "type[BaseModel] | UnionType"
        for side, what in (("CLIENT", "clients"), ("SERVER", "servers")):
            for kind in ("request", "notification"):
                rows = tuple(self._by_version(kind, _SIDES[side], self._wire_type))
                doc = f"The {kind}s that {what} send, by method and version."
                yield Table(f"{side}_{kind.upper()}S", model, doc, rows)
        for side, what in (("SERVER", "servers"), ("CLIENT", "clients")):
            rows = tuple(self._by_version("request", _SIDES[_other(side)], self._wire_result))
            yield Table(f"{side}_RESULTS", union, f"The results that {what} send, by method and version.", rows)
        for kind in ("Request", "Notification"):
            doc = f"The {kind.lower()}s of either side, by method."
            rows = tuple(sorted(self._merged(kind.lower()).items()))
            yield Table(f"MONOLITH_{kind.upper()}S", f"type[types.{kind}[Any, Any]]", doc, rows, "str")
        rows = tuple((method, text) for method, (text, _) in self.results.items())
        doc = "The results of the requests of either side, by method."
        yield Table("MONOLITH_RESULTS", "type[types.Result] | UnionType", doc, rows, "str")

    @cached_property
    def results(self) -> dict[str, tuple[str, bool]]:
        """Return the results of each request as Python, and whether they can be cached, by method."""
        arms: dict[str, dict[str, None]] = {}
        for revision in self._protocol.revisions:
            for row in self._rows(revision, "request"):
                arms.setdefault(literal(row.method), {}).update(dict.fromkeys([*self._final(row), *self._interim(row)]))
        shapes = self._declarations.shapes
        return {
            method: (
                " | ".join(f"types.{shapes.name(name)}" for name in names),
                any(_CACHED in shapes.ancestors(name) for name in names),
            )
            for method, names in sorted(arms.items())
        }

    @property
    def cacheable(self) -> list[str]:
        """Return the methods whose results can be cached."""
        return [method for method, (_, is_cached) in self.results.items() if is_cached]

    def _rows(self, revision: Revision, kind: str) -> Iterator[Method]:
        for row in sorted(revision.methods, key=lambda row: row.method):
            if row.kind == kind and not self._protocol.is_left_out(row.type):
                yield row

    def _by_version(self, kind: str, direction: str, text: Callable[[str, Method], str]) -> Iterator[tuple[str, str]]:
        for revision in self._protocol.revisions:
            for row in self._rows(revision, kind):
                if row.direction == direction:
                    yield f"({literal(row.method)}, {literal(revision.id)})", text(revision.id, row)

    def _wire_type(self, revision: str, row: Method) -> str:
        return f"{self._wire[revision]}.{row.type}"

    def _wire_result(self, revision: str, row: Method) -> str:
        module, result = self._wire[revision], row.result or "EmptyResult"
        return f"{module}.Any{result}" if self._interim(row) else f"{module}.{result}"

    def _interim(self, row: Method) -> list[str]:
        return [interim.type for interim in row.interim if not self._protocol.is_left_out(interim.type)]

    def _final(self, row: Method) -> list[str]:
        result = row.result or "EmptyResult"
        return [name for name in (result, self._form.texts("copy").get(result)) if name]

    def _merged(self, kind: str) -> dict[str, str]:
        """Return the class of each message of a kind, by method: also of one whose type has another method now."""
        rows = [row for revision in self._protocol.revisions for row in self._rows(revision, kind)]
        return {literal(row.method): f"types.{self._declarations.shapes.name(row.type)}" for row in rows}


def _other(side: str) -> str:
    return "SERVER" if side == "CLIENT" else "CLIENT"


def wire_revisions(revisions: Sequence[Revision], form: Form) -> dict[str, Revision]:
    """Return the revision whose types validate each version: its own, or the newest of its style."""
    newest = {revision.lifecycle.style: revision for revision in revisions}
    return {
        revision.id: newest[revision.lifecycle.style] if revision.lifecycle.style in form.shared else revision
        for revision in revisions
    }


def render_package(
    revisions: Sequence[Revision], form: Form, definitions: Mapping[str, Sequence[str]], templates: Templates
) -> dict[Path, str]:
    """Return the files of the output of a form by their paths in its folder.

    `definitions` are the names of the types that the schema of each revision has a name for.
    """
    texts = package_texts(revisions, form, definitions, templates)
    return {
        path: (
            text if path.name in _KEPT else (format_text if path.name in _INDEXES else format_module)(text, str(path))
        )
        for path, text in texts.items()
    }


def package_texts(
    revisions: Sequence[Revision], form: Form, definitions: Mapping[str, Sequence[str]], templates: Templates
) -> dict[Path, str]:
    """Return what `render_package` returns, before it is formatted."""
    protocol = merge(revisions, form)
    types = module_text(protocol, templates)
    if not form.shared:
        return {Path(f"{form.package}.py"): types}
    folder = Path(form.package)
    validated = wire_revisions(revisions, form)
    files = {folder / "_types.py": types, folder / "py.typed": ""}
    context = _context(protocol, validated)
    for name in _MODULES:
        text = print_template(f"official/{name.strip('_')}.py.jinja2", context, templates)
        files[folder / f"{name}.py"] = text
    for revision in {revision.id: revision for revision in validated.values()}.values():
        wire = WireTypes(revision, form, definitions[revision.id])
        own = {"revision": revision, "types": wire.all(), "results": list(wire.results()), **context}
        name = f"_{revision.module}"
        text = print_template("official/wire.py.jinja2", own, templates)
        files[folder / f"{name}.py"] = text
    return files


def _context(protocol: Protocol, validated: Mapping[str, Revision]) -> dict[str, Any]:
    """Return what the templates of all modules have."""
    declarations = Declarations(protocol)
    styles: dict[str, list[str]] = {"handshake": [], "stateless": []}
    for revision in protocol.revisions:
        styles.setdefault(revision.lifecycle.style, []).append(revision.id)
    modules = {
        revision.id: f"_{wire.module}" for revision, wire in zip(protocol.revisions, validated.values(), strict=True)
    }
    tables = MethodTables(protocol, modules)
    return {
        "form": protocol.form,
        "generator": GENERATOR,
        "names": sorted(declarations.public_names()),
        "errors": sorted(declarations.error_codes()),
        "revisions": [revision.id for revision in protocol.revisions],
        "styles": styles,
        "modules": sorted(set(modules.values())),
        "tables": list(tables.all()),
        "cacheable": tables.cacheable,
        "literal": literal,
        "shown": shown,
    }


# The types of one revision as the official Python SDK validates messages with them: a class for each object.
#
# An inline object has the name of its property, with a number where that name is taken, in the order of the alphabet;
# so does datamodel-code-generator, with which the SDK makes these modules from schema.json.


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
                return f"Literal[{', '.join(map(value_text, values))}]"
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
