"""The types of the protocol in the form of the official Python SDK, derived from all revisions and official.toml."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic.alias_generators import to_camel

from ..model.ir import PYTHON_TYPES, Alias, Array, Field, Map, Method, Object, Plain, Ref, Revision, Type, Union, Values
from ..model.names import snake
from ..model.overlay import FormRow, Forms
from ..paths import Templates
from .merged_types import MESSAGE_UNIONS, Protocol, merge
from .source import GENERATOR, print_template
from .type_modules import dependencies_first
from .types import docstring, literal, sentence, value_text

# The properties and bases of each class of a form, and how their types are written.

# The class that has the params of all messages of a kind.
PARAMS: Final = {"request": "RequestParams", "input_request": "RequestParams", "notification": "NotificationParams"}
ENVELOPES: Final = ("JSONRPCRequest", "JSONRPCNotification")

_WORD: Final = re.compile(r"\w+")
_STRING: Final = re.compile(r'"[^"]*"')
_GENERIC: Final = ("Request", "Notification", "PaginatedRequest")
# The base of all classes.
_BASE: Final = "MCPModel"


@dataclass(frozen=True)
class Member:
    """A property as it is declared: what is written after its name, and its docstring."""

    name: str
    annotation: str
    default: str | None = None
    alias: str = ""
    doc: str = ""

    @property
    def text(self) -> str:
        """Return the declaration."""
        if self.alias:
            keywords = [f"alias={literal(self.alias)}", *([f"default={self.default}"] if self.default else [])]
            return f"{self.name}: {self.annotation} = Field({', '.join(keywords)})"
        return f"{self.name}: {self.annotation}" + (f" = {self.default}" if self.default else "")


class Shapes:
    """The classes of a form by the names that their types have in the protocol."""

    def __init__(self, protocol: Protocol) -> None:
        """Prepare the names of all types."""
        self._protocol = protocol
        self._form = protocol.form
        self._names = protocol.form.texts("name")
        self._capabilities = protocol.capabilities
        self._aliases = protocol.form.texts("alias")
        self._originals = {copy: name for name, copy in protocol.form.texts("copy").items()}
        self._gone = {place for table in ("inlined", "moved", "no_base") for place in protocol.form.places(table)}
        self._params = dict(self._params_by_kind())
        self._extends: dict[str, list[str]] = {}
        self._members: dict[str, tuple[Member, ...]] = {}

    def empty_objects(self) -> dict[str, str]:
        """Return the docstrings of the classes of empty objects, by their names."""
        docs: dict[str, str] = {}
        for (owner, wire), name in self._capabilities.of_empty_objects.items():
            defined = self._protocol.types[owner]
            field = defined.field(wire) if isinstance(defined, Object) else None
            docs.setdefault(self._names.get(name, name), sentence(field) if field is not None else "")
        return docs

    def name(self, name: str) -> str:
        """Return the name of a type in the form."""
        name = self._capabilities.of_types.get(name, name)
        if name.endswith("ErrorObjectData"):
            name = self._names.get(name, name.replace("ErrorObjectData", "ErrorData"))
        return self._names.get(name, name)

    def params(self, name: str) -> str:
        """Return the name of params: those without properties of their own are those of their kind."""
        defined = self._protocol.types[name]
        is_bare = isinstance(defined, Object) and {field.wire for field in defined.fields} <= {"_meta"}
        return self._params.get(name, name) if is_bare else self.name(name)

    def bases(self, name: str) -> list[str]:
        """Return the bases whose properties a type has just as they have them, without those that others have."""
        own = {member.name: replace(member, doc="") for member in self.members(name)}
        written = [base for base in self._written_bases(name) if self._fits(base, own)]
        return [base for base in written if not any(base in self.ancestors(other) for other in written)]

    def _fits(self, base: str, own: Mapping[str, Member]) -> bool:
        return all(own.get(member.name) == replace(member, doc="") for member in self.members(base))

    def _written_bases(self, name: str) -> list[str]:
        """Return the bases of a type in the form; params extend those of their kind."""
        if name not in self._extends:
            self._extends[name] = [] if name in ENVELOPES else list(self._found_bases(name))
        return self._extends[name]

    def _found_bases(self, name: str) -> dict[str, None]:
        defined = self._protocol.types[name]
        found: dict[str, None] = {}
        for base in defined.extends if isinstance(defined, Object) else ():
            is_gone = base in self._gone or f"{name}.{base}" in self._gone
            found |= dict.fromkeys(self._written_bases(base) if is_gone else (base,))
        found = {base: None for base in found if isinstance(self._protocol.types[base], Object)}
        plain = self._params.get(name, name)
        is_plain = plain == name or any(plain in (base, *self.ancestors(base)) for base in found)
        return found if is_plain else {plain: None} | found

    def _params_by_kind(self) -> Iterator[tuple[str, str]]:
        """Yield the params of each message, and the class that has the params of its kind."""
        for row in self._protocol.methods.values():
            defined = self._protocol.types.get(row.params or "")
            arms = self._protocol.references(defined.type) if isinstance(defined, Alias) else [row.params]
            yield from ((arm, PARAMS[row.kind]) for arm in arms if arm)

    def ancestors(self, name: str) -> set[str]:
        """Return all bases of a type in the form, by their names in the protocol."""
        bases = self._written_bases(name)
        return {*bases, *(other for base in bases for other in self.ancestors(base))}

    def members(self, name: str) -> tuple[Member, ...]:
        """Return all properties of a type as the form declares them."""
        if name not in self._members:
            own = {member.name: member for member in (self._member(name, field) for field in self._ordered(name))}
            # Params have what those of their kind have, though an older revision gives them less.
            base = self._params.get(name, name)
            inherited = self.members(base) if base != name and base in self.ancestors(name) else ()
            self._members[name] = tuple(({member.name: member for member in inherited} | own).values())
        return self._members[name]

    def _ordered(self, name: str) -> list[Field]:
        """Return the properties of a type: those of its row, others, and those that all types have last."""
        fields = list(self._fields(name))
        first = self._form.order(self._originals.get(name, name))
        places = {wire: place - len(first) for place, wire in enumerate(first)}
        places |= {wire: place + 1 for place, wire in enumerate(self._form.last) if wire not in places}
        return sorted(fields, key=lambda field: places.get(field.wire, 0))

    def _fields(self, name: str) -> Iterator[Field]:
        defined = self._protocol.types[name]
        yield from defined.fields if isinstance(defined, Object) else ()
        for source in (source for source, target in self._form.texts("moved").items() if target == name):
            moved = self._protocol.types[source]
            yield from moved.fields if isinstance(moved, Object) else ()

    def _attribute(self, field: Field) -> str:
        is_plain = self._form.wire_names and field.wire.isidentifier() and not field.wire.startswith("_")
        return field.wire if is_plain else field.name

    def _member(self, owner: str, field: Field) -> Member:
        name = self._attribute(field)
        alias = "" if (name if self._form.wire_names else to_camel(name)) == field.wire else field.wire
        row = self._form.row("field", f"{owner}.{field.wire}") or self._inherited_row(owner, field.wire)
        if row is not None:
            return Member(name, row.text, row.default, alias, sentence(field))
        annotation = self._annotation(owner, field)
        default = None
        if field.default is not None:
            default = value_text(field.default)
        elif field.wire in self._form.default_constants and (only := constant(field.type)):
            default = only
        elif not field.required:
            default = "None"
            annotation = annotation if annotation == "Any" else f"{annotation} | None"
        return Member(name, annotation, default, alias, sentence(field))

    def _inherited_row(self, owner: str, wire: str) -> FormRow | None:
        """Return the row for the property of a base."""
        return next(
            (
                row
                for base in sorted(self.ancestors(owner))
                if (row := self._form.row("field", f"{base}.{wire}")) is not None
            ),
            None,
        )

    def _annotation(self, owner: str, field: Field) -> str:
        if field.wire == "_meta":
            return self._meta(owner)
        if (owner, field.wire) in self._capabilities.of_empty_objects:
            name = self._capabilities.of_empty_objects[owner, field.wire]
            return self._names.get(name, name)
        if (place := f"{self._originals.get(owner, owner)}.{field.wire}") in self._aliases:
            return self._aliases[place]
        if field.wire == "uri" and isinstance(field.type, Plain) and field.type.format == "uri":
            return self._form.uri
        if owner.startswith("JSONRPC") and field.wire in ("params", "result"):
            return "dict[str, Any]"
        return self.written(field.type)

    def _meta(self, owner: str) -> str:
        """Return the type of `_meta`: that of requests has the progress token, and others are any object."""
        for plain in PARAMS.values():
            if owner == plain or plain in self.ancestors(owner):
                if self._form.nested_meta:
                    return "Meta"
                if plain == "RequestParams":
                    return "RequestParamsMeta"
        return "dict[str, Any]"

    def written(self, type: Type) -> str:
        """Return a type as Python."""
        if self._protocol.is_json(type):
            return "dict[str, Any]"
        match type:
            case Ref(name):
                defined = self._protocol.types[name]
                return (
                    self.written(defined.type)
                    if name in self._form.places("inlined") and isinstance(defined, Alias)
                    else self.name(name)
                )
            case Plain(open_values=values) if values:
                return f"Literal[{', '.join(map(value_text, values))}] | str"
            case Plain(kind):
                return PYTHON_TYPES[kind]
            case Values(values):
                return f"Literal[{', '.join(map(value_text, values))}]"
            case Array(items):
                return f"list[{self.written(items)}]"
            case Map(values):
                return f"dict[str, {self.written(values)}]"
            case Union(arms):
                return " | ".join(dict.fromkeys(self.written(arm) for arm in arms))


def constant(type: Type) -> str:
    """Return the only value of a type; empty if it has others."""
    return value_text(type.values[0]) if isinstance(type, Values) and len(type.values) == 1 else ""


# The declarations of a form: classes, aliases and constants, each after all that it needs.


@dataclass(frozen=True)
class Declaration:
    """A name of the module. `kind` is "class", "alias", "root", or the name of a class that the template has; `text` is
    what an alias stands for. `extra` is written if its bases treat unknown properties differently. `lists` are the
    properties that are one item or a list, with the type of the items."""

    name: str
    kind: str
    bases: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    text: str = ""
    doc: str = ""
    extra: str = ""
    deprecated: str = ""
    lists: tuple[tuple[str, str], ...] = ()

    def needs(self) -> set[str]:
        """Return the words in it, some of which are names of other declarations."""
        texts = [self.text, *self.bases, *(member.annotation for member in self.members)]
        return {word for text in texts for word in _WORD.findall(_STRING.sub("", text))} - {self.name}


class Declarations:
    """The declarations of a form, from the merged types."""

    def __init__(self, protocol: Protocol) -> None:
        """Prepare the names of all types."""
        self._protocol = protocol
        self._form = protocol.form
        self.shapes = Shapes(protocol)
        self._reached = protocol.reached()

    def all(self) -> list[Declaration]:
        """Return all declarations, each after those that it needs."""
        found = {declaration.name: declaration for declaration in self._all()}
        order = {name: place for place, name in enumerate(found)}
        needs = {
            name: sorted(declaration.needs() & order.keys(), key=order.__getitem__)
            for name, declaration in found.items()
        }
        for generic, params in (("Request", "RequestParams"), ("Notification", "NotificationParams")):
            needs[generic] = [params]
        needs["PaginatedRequest"] = ["Request", "PaginatedRequestParams"]
        needs["RequestParams"] += ["ProgressToken"]  # That of `_meta`.
        return [self._placed(found[name]) for name in dependencies_first(needs)]

    def _all(self) -> Iterator[Declaration]:
        for name, text in self._form.texts("written").items():
            yield Declaration(name, "alias", text=text, doc=self._doc(name))
        for place, name in self._form.texts("alias").items():
            owner, _, wire = place.rpartition(".")
            if (field := self._field(owner, wire)) is not None:
                yield Declaration(name, "alias", text=self.shapes.written(field.type))
        for name, doc in self.shapes.empty_objects().items():
            yield Declaration(name, "class", (_BASE,), doc=doc)
        for name in self._protocol.types:
            if name in self._reached and not self._form.row("inlined", name) and not self._form.row("moved", name):
                yield from self._declared(name)
        for name in MESSAGE_UNIONS:
            if arms := self._protocol.message_union(name):
                yield from self._union(name, " | ".join(map(self.shapes.name, arms)))
        for target, name in self._form.texts("deprecated").items():
            yield Declaration(name, "class", (target,), doc=f"Deprecated: use {target}.", deprecated=target)

    def _declared(self, name: str) -> Iterator[Declaration]:
        defined = self._protocol.types[name]
        own = self.shapes.name(name)
        if self._form.row("written", name):
            return
        if name in _GENERIC:
            yield Declaration(own, name, doc=self._doc(name))
        elif isinstance(defined, Alias):
            if name == "JSONRPCMessage":
                yield from self._union(own, self.shapes.written(defined.type))
            elif not self._protocol.is_json(Ref(name)):
                copied = self._protocol.copied(defined.type)
                yield Declaration(own, "alias", text=self.shapes.written(copied), doc=self._doc(name))
        elif (row := self._protocol.methods.get(name)) is not None:
            yield self._message(own, row)
        elif not self._protocol.is_json(Ref(name)) and self.shapes.params(name) == own:
            yield self._class(defined)

    def _union(self, name: str, text: str) -> Iterator[Declaration]:
        if self._form.root_unions:
            yield Declaration(f"{name}Type", "alias", text=text)
            yield Declaration(name, "root", text=f"{name}Type", doc=self._doc(name))
        else:
            yield Declaration(name, "alias", text=text, doc=self._doc(name))
            yield Declaration(f"{snake(name)}_adapter", "adapter", text=name)

    def _message(self, name: str, row: Method) -> Declaration:
        """Return the class of a message: its method is a constant, and its params are those of its generic base."""
        base = "Notification" if row.kind == "notification" else "Request"
        plain = PARAMS[row.kind]
        params = self.shapes.params(row.params) if row.params else plain
        defined = self._protocol.types.get(row.params or "")
        is_needed = isinstance(defined, Alias) or self._protocol.needs_params(row)
        method = f"Literal[{', '.join(map(literal, self._protocol.methods_of(row.type)))}]"
        members = [Member("method", method, literal(row.method))]
        if not is_needed:
            members.append(Member("params", f"{params} | None", "None"))
        hint = params if is_needed else f"{params} | None"
        bases = (f"{base}[{hint}, {method}]",)
        if params == "PaginatedRequestParams":
            bases, members = (f"PaginatedRequest[{method}]",), members[:1]
        return Declaration(name, "class", bases, tuple(members), doc=self._doc(row.type))

    def _class(self, defined: Object) -> Declaration:
        bases = self.shapes.bases(defined.name)
        inherited = {member.name for base in bases for member in self.shapes.members(base)}
        members = tuple(member for member in self.shapes.members(defined.name) if member.name not in inherited)
        names = tuple(map(self.shapes.name, bases)) or (_BASE,)
        if self._form.wire_names and defined.name in ENVELOPES:
            names = (f"{defined.name.removeprefix('JSONRPC')}[dict[str, Any] | None, str]",)
        lists = tuple(self._lists(defined, {member.name for member in members}))
        doc = self._doc(defined.name)
        return Declaration(self.shapes.name(defined.name), "class", names, members, doc=doc, lists=lists)

    def _lists(self, defined: Object, own: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the properties of a class that are one item or a list of them, and the type of an item."""
        for field in defined.fields:
            if field.name not in own or self._form.row("field", f"{defined.name}.{field.wire}"):
                continue
            match field.type:
                case Union((item, Array(items))) if item == items:
                    yield field.name, self.shapes.written(item)
                case _:
                    pass

    def _field(self, owner: str, wire: str) -> Field | None:
        defined = self._protocol.types.get(owner)
        return defined.field(wire) if isinstance(defined, Object) else None

    def _doc(self, name: str) -> str:
        defined = self._protocol.types.get(name)
        return sentence(defined) if defined is not None else ""

    def _placed(self, declaration: Declaration) -> Declaration:
        """Return a class that says what becomes of unknown properties, where its bases do not."""
        extras = self._form.texts("extra")
        if declaration.kind != "class":
            return declaration
        if declaration.name in extras:
            return replace(declaration, extra=extras[declaration.name])
        is_kept = self._form.wire_names and any(base in extras for base in declaration.bases)
        return replace(declaration, extra="allow") if is_kept else declaration

    def constants(self) -> Iterator[tuple[str, str, str]]:
        """Yield the constants: name, annotation and value."""
        values: dict[str, str | int] = {}
        for revision in self._protocol.revisions:
            values |= revision.constants
        values |= {
            name: row.use
            for name, row in self._form.rows.get("constant", {}).items()
            if isinstance(row.use, (str, int))
        }
        yield from ((name, "Final", value_text(value)) for name, value in sorted(values.items()))
        if not self._form.wire_names:
            yield from self._key_constants()
        for place, prefix in self._form.texts("literal").items():
            owner, _, wire = place.rpartition(".")
            field = self._field(owner, wire)
            for value in self._values(field.type) if field is not None else ():
                name = f"{prefix}_{str(value).upper()}"
                yield name, f"Final[Literal[{value_text(value)}]]", value_text(value)

    def _values(self, type: Type) -> Iterable[str | int | bool]:
        match type:
            case Values(values):
                return values
            case Ref(name) if isinstance(defined := self._protocol.types[name], Alias):
                return self._values(defined.type)
            case _:
                return ()

    def _key_constants(self) -> Iterator[tuple[str, str, str]]:
        """Yield the keys of `_meta` with a namespace."""
        for owner in ("RequestMetaObject", "ResultMetaObject"):
            defined = self._protocol.types.get(owner)
            for field in defined.fields if isinstance(defined, Object) else ():
                if "/" in field.wire:
                    yield f"{field.name.upper()}_META_KEY", "Final", literal(field.wire)

    def public_names(self) -> Iterator[str]:
        """Yield the names that the module is for."""
        yield from (declaration.name for declaration in self._all())
        yield from (name for name, _, _ in self.constants())
        yield from ("CORE_RESULT_TYPES",) if self.open_values() else ()
        yield from () if self._form.nested_meta else ("RequestParamsMeta",)

    def error_codes(self) -> Iterator[str]:
        """Yield the names of the constants that are codes of errors."""
        yield from (name for name, _, value in self.constants() if value.lstrip("-").isdigit())

    def open_values(self) -> str:
        """Return the known results of a request, as a tuple; empty where results have no type."""
        defined = self._protocol.types.get("ResultType")
        values = defined.type.open_values if isinstance(defined, Alias) and isinstance(defined.type, Plain) else ()
        return ", ".join(map(value_text, values))


def shown(doc: str, indent: str) -> str:
    """Return a docstring, or nothing for no text."""
    return docstring(doc, indent) if doc else ""


def render_official(revisions: Sequence[Revision], forms: Forms, templates: Templates) -> dict[str, str]:
    """Return a module for each form whose newest revision is among these, by name."""
    return {
        f"compat/types_{key}.py": module_text(merge(known, form), templates)
        for key, form in forms.forms.items()
        if (known := list(_until(revisions, form.until)))
    }


def _until(revisions: Sequence[Revision], until: str) -> Iterator[Revision]:
    """Yield the revisions up to one; none if that is not among them."""
    if until in (revision.id for revision in revisions):
        yield from (revision for revision in revisions if revision.id <= until)


def module_text(protocol: Protocol, templates: Templates) -> str:
    """Return the module of the types of a form, not formatted."""
    found = Declarations(protocol)
    context = {
        "form": protocol.form,
        "declarations": found.all(),
        "constants": list(found.constants()),
        "result_types": found.open_values(),
        "shown": shown,
        "generator": GENERATOR,
    }
    return print_template("official/types.py.jinja2", context, templates)
