"""Render all files of a package, and check them against the revision. They are formatted when all are rendered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, cast

from ..conversion.steps import Step
from ..model.ir import Object, Plain, Revision
from ..paths import Templates
from .calls import TABLES, http, method_views, roles
from .declarations import declarations
from .source import (
    GENERATOR,
    filled,
    one_line,
    print_template,
    printed_block,
    printed_row,
    printed_table,
    verify_types_module,
)
from .type_modules import arrange
from .types import literal, schema_page, second_names

_TABLE: Final = 2  # The indent of a table of a conversion.

_TEMPLATES: Final = {
    "__init__.py": "package.py.jinja2",
    "client.py": "client.py.jinja2",
    "methods.py": "methods.py.jinja2",
    "server.py": "server.py.jinja2",
    "sync.py": "sync.py.jinja2",
}
# What the table of a revision says of its place: that it is there.
_HERE: Final = "__name__"
# The calls that an app answers.
_APP_METHODS: Final = frozenset(
    {"call_tool", "list_tools", "read_resource", "list_resources", "list_resource_templates", "get_prompt"}
    | {"list_prompts", "complete"}
)


def conversion_tables(steps: list[Step]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return for each step its target and its tables, as Python texts by their names."""
    return [(literal(step.target), [*_tables(asdict(step))]) for step in steps]


def _tables(step: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in step.items():
        if name.startswith("renamed_") and not value:
            continue  # Few steps have any.
        if name == "rules" and value:
            yield name, printed_block("{", [f"{entry}," for entry in _rules(value)], "}", _TABLE)
        elif name == "methods":
            yield name, printed_table({key: _rows(rows, _TABLE + 1) for key, rows in value.items()}, _TABLE)
        elif isinstance(value, Mapping) and value:
            yield name, _rows(cast("Mapping[str, Any]", value), _TABLE)
        else:
            yield name, one_line(value)


def _rows(table: Mapping[str, Any], indent: int) -> str:
    return printed_table({key: printed_row(key, value, indent + 1) for key, value in table.items()}, indent)


def _rules(rules: Mapping[str, str]) -> Iterator[str]:
    """Yield the entries by their reason, which several rules may have."""
    names: dict[str, list[str]] = {}
    for name, reason in rules.items():
        names.setdefault(reason, []).append(name)
    for reason, those in names.items():
        if len(those) == 1:
            yield f"{one_line(those[0])}: {one_line(reason)}"
        else:
            yield f"**dict.fromkeys({filled(tuple(those), _TABLE + 1)}, {one_line(reason)})"


class RevisionPackage:
    """The files of a revision's package by name, not formatted: its types, and the other modules.

    `module` is the Python expression for the module of the method table, and `own` are the types of an extension: a
    caller gets those of them that are interim results. The methods that are `added` to another revision have classes of
    their own.
    """

    def __init__(
        self,
        revision: Revision,
        templates: Templates,
        module: str = _HERE,
        own: frozenset[str] | None = None,
        added: frozenset[str] = frozenset(),
    ) -> None:
        self.revision = revision
        self.own = own
        self._templates = templates
        self._context = _context(revision, module, own, added)

    def modules(self) -> dict[str, str]:
        """Return the modules other than that of the types."""
        return {name: print_template(text, self._context, self._templates) for name, text in _TEMPLATES.items()}

    def types(self) -> str:
        """Return types.py. Raises CodegenError if it would declare anything but the types of the revision."""
        types = {"types": declared_types(self.revision, self._templates, self.own)}
        text = print_template("types.py.jinja2", self._context | types, self._templates)
        verify_types_module(text, self.revision, self.own)
        return text


def _context(revision: Revision, module: str, own: frozenset[str] | None, added: frozenset[str]) -> dict[str, Any]:
    """Return what all templates of a revision get."""
    tables = method_views(revision, own or frozenset())
    rows = {call.row for table in tables.values() for call in table}
    rows |= {"CapabilityRequirement" for table in tables.values() for call in table if call.requirements}
    rows |= {"ReservedErrorCodes"} if revision.reserved_codes else set()
    style = revision.lifecycle.style.capitalize()
    senders = {"client_to_server": revision.client.lower(), "server_to_client": revision.server.lower()}
    return {
        "revision": revision,
        "revision_id": literal(revision.id),
        "module": module,
        "page": "" if own is not None else schema_page(revision),
        "generator": GENERATOR,
        "change_name": f"{revision.server}Change",
        "grouped": not added,
        "added": frozenset(literal(method) for method in added),
        "client_sends": tables["FromClient"],
        "server_sends": tables["FromServer"],
        "tables": [
            {"name": name, "direction": direction, "sender": senders[direction], "calls": tables[name]}
            for direction, name in TABLES.items()
        ],
        "spec_imports": sorted(
            {style, "HTTPProfile", "HandshakeFields", "InterimResult", "MessageTable", "Revision", "rows_of", *rows}
        ),
        "lifecycle": {"style": style, "roles": roles(revision, tables), "fields": _handshake_fields(revision)},
        "http": http(revision, tables),
        "other_names": [(literal(place), literal(name)) for place, name in revision.other_names.items()],
        "constants": [(literal(name), ascii(value)) for name, value in revision.constants.items()],
    }


def converter_module(older: Revision, newer: Revision) -> str:
    """Return the name of the module that converts between two neighbouring revisions."""
    return f"{older.module}_{newer.module}"


def render_converter(older: Revision, newer: Revision, steps: list[Step], templates: Templates) -> str:
    """Return the module that converts between two neighbouring revisions; it holds nothing but literals."""
    context = {"older": older, "newer": newer, "tables": conversion_tables(steps), "generator": GENERATOR}
    return print_template("converter.py.jinja2", context, templates)


def render_converters_package(templates: Templates) -> str:
    """Return the text of the package of the converters."""
    return print_template("converters_package.py.jinja2", {"generator": GENERATOR}, templates)


def supports_apps(revision: Revision) -> bool:
    """Return True if an app can be made for a revision: it has all that apps offer. A tool is called with its name and
    any arguments, and its result has content, and structured content that is not a text."""
    calls = {call.name: call for call in method_views(revision)["FromClient"]}
    if not calls.keys() >= _APP_METHODS:
        return False
    call = calls["call_tool"]
    result = revision.types.get(call.result.removeprefix("t."))
    if not isinstance(result, Object) or result.field("content") is None:
        return False
    structured = result.field("structuredContent")
    is_plain = structured is not None and isinstance(structured.type, Plain) and structured.type.kind != "any"
    hints = {field.name: field.hint for field in call.fields}
    return not is_plain and "name" in hints and hints.get("arguments") == "dict[str, Any]"


def render_app(revision: Revision, templates: Templates) -> str:
    """Return the module of the app."""
    views = method_views(revision)
    table = views["FromClient"]
    context = {
        "revision": revision,
        "calls": table,
        "server_sends": views["FromServer"],
        "grouped": False,
        "generator": GENERATOR,
    }
    return print_template("app.py.jinja2", context, templates)


def render_multi(revision: Revision, templates: Templates) -> str:
    """Return the module of the client of several servers, which is made for the revision of the app."""
    context = {"revision": revision, "calls": method_views(revision)["FromClient"], "generator": GENERATOR}
    return print_template("multi.py.jinja2", context, templates)


def render_client(revision: Revision, templates: Templates) -> str:
    """Return the module of the client of any server, which is made for the revision of the app."""
    views = method_views(revision)
    context = {
        "revision": revision,
        "calls": views["FromClient"],
        "server_sends": views["FromServer"],
        "change_name": f"{revision.server}Change",
        "generator": GENERATOR,
    }
    return print_template("host_client.py.jinja2", context, templates)


def declared_types(revision: Revision, templates: Templates, own: frozenset[str] | None = None) -> str:
    """Return the declarations of types.py, in order; only of `own` types, if they are named. Raises CodegenError for a
    template that is broken."""
    return arrange(revision, declarations(revision, templates, own) | second_names(revision, own))


def _handshake_fields(revision: Revision) -> list[tuple[str, str]]:
    return [(name, ascii(value)) for name, value in revision.lifecycle.fields.items()]
