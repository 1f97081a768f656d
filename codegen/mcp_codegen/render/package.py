"""Render all files of a package, and check them against the revision. They are formatted when all are rendered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeGuard

from ..conversion.steps import Step
from ..model.ir import Object, Plain, Revision
from ..paths import Templates
from .calls import TABLES, http, method_views, roles
from .declarations import declarations
from .source import GENERATOR, print_template
from .type_modules import arrange
from .types import literal, schema_page, second_names
from .verify import verify_types_module

# Print the tables of a conversion in fewer lines than black: what fits into a line is not split, and the items of a
# tuple fill their lines.

_WIDTH: Final = 120
_STEP: Final = 2


def conversion_tables(steps: list[Step]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return for each step its target and its tables, as Python texts by their names."""
    return [(literal(step.target), [*_tables(asdict(step))]) for step in steps]


def _tables(step: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in step.items():
        if name.startswith("renamed_") and not value:
            continue  # Few steps have any.
        if name == "rules" and value:
            yield name, _block("{", [f"{entry}," for entry in _rules(value)], "}", 8)
        else:
            yield name, _printed(value, 8, len(name) + 5)


def _rules(rules: Mapping[str, str]) -> Iterator[str]:
    """Yield the entries by their reason, which several rules may have."""
    names: dict[str, list[str]] = {}
    for name, reason in rules.items():
        names.setdefault(reason, []).append(name)
    for reason, those in names.items():
        if len(those) == 1:
            yield f"{_line(those[0])}: {_line(reason)}"
        else:
            yield f"**dict.fromkeys({_filled('(', those, ')', 10)}, {_line(reason)})"


def _printed(value: Any, indent: int, used: int) -> str:
    """Return the text of a value. Its first line begins in the column `indent + used`."""
    text = _line(value)
    if indent + used + len(text) < _WIDTH:
        return text
    if _is_sequence(value):
        return _filled(text[0], value, text[-1], indent)
    if not _is_table(value):
        return text
    entries = [(_line(key), item) for key, item in value.items()]
    if len(entries) == 1:
        ((key, item),) = entries
        return f"{{{key}: {_printed(item, indent, used + len(key) + 3)}}}"
    return _block(
        "{", [f"{key}: {_printed(item, indent + _STEP, len(key) + 3)}," for key, item in entries], "}", indent
    )


def _filled(opening: str, items: Iterable[Any], closing: str, indent: int) -> str:
    """Return a sequence with as many items in a line as fit."""
    lines = [""]
    for item in items:
        text = _printed(item, indent + _STEP, 1)
        if lines[-1] and indent + 6 + len(lines[-1]) + len(text.partition("\n")[0]) > _WIDTH:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{text},"
    return _block(opening, lines, ",)" if len(lines) == 1 and closing == ")" else closing, indent)


def _block(opening: str, lines: Iterable[str], closing: str, indent: int) -> str:
    """Return a collection in several lines. Its last line has the closing bracket, as in Lisp."""
    return opening + "".join(f"\n{' ' * (indent + _STEP)}{line}" for line in lines).rstrip(",") + closing


def _line(value: Any) -> str:
    """Return a literal in one line, with the quotation marks that black prefers."""
    if isinstance(value, str):
        return literal(value)
    if _is_table(value):
        return "{" + ", ".join(f"{_line(key)}: {_line(item)}" for key, item in value.items()) + "}"
    if not _is_sequence(value):
        return ascii(value)
    inside = ", ".join(map(_line, value))
    return f"[{inside}]" if isinstance(value, list) else f"({inside},)" if len(value) == 1 else f"({inside})"


def _is_table(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_sequence(value: Any) -> TypeGuard[tuple[Any, ...] | list[Any]]:
    return isinstance(value, (tuple, list))


_TEMPLATES: Final = {
    "__init__.py": "package.py.jinja2",
    "client.py": "client.py.jinja2",
    "methods.py": "methods.py.jinja2",
    "server.py": "server.py.jinja2",
    "sync.py": "sync.py.jinja2",
}
# What the table of a revision says of its place: that it is there.
_HERE: Final = "__name__"
# What the modules of the app give to the index, and the calls that an app answers.
_APP: Final = {"App": "app", "Context": "app", "MultiClient": "multi"}
_APP_METHODS: Final = frozenset(
    {"call_tool", "list_tools", "read_resource", "list_resources", "list_resource_templates", "get_prompt"}
    | {"list_prompts", "complete"}
)


# The areas of the package beside its front door: the runtime's module, and what it is for.
_AREAS: Final = {
    "auth": ("mcp_runtime.auth", "OAuth 2.1: authorization for clients, resource servers and authorization servers."),
    "dependencies": (
        "mcp_runtime.app.dependencies",
        "Dependencies: parameters whose values are computed on the server.",
    ),
    "http": (
        "mcp_runtime.transports",
        "HTTP: the ASGI application of a server, its limits, and the options of clients.",
    ),
    "middleware": ("mcp_runtime.app.middleware", "Middleware: what runs around the handlers of an app's messages."),
    "providers": ("mcp_runtime.app.providers", "Providers: sources of tools, resources and prompts of an app."),
    "sampling": ("mcp_runtime.client.sampling", "Sampling: handlers for clients that call the models of a provider."),
    "skills": ("mcp_runtime.extensions.skills", "The skills extension: publish and verify skills."),
    "tasks": ("mcp_runtime.extensions.tasks", "The tasks extension: requests whose result clients poll for."),
    "transforms": ("mcp_runtime.app.transforms", "Transforms: what changes what the clients of an app see."),
    "testing": ("mcp_runtime.testing", "A scripted peer for tests of clients and servers."),
}


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


def render_index(
    revisions: list[Revision], neighbours: list[tuple[Revision, Revision]], templates: Templates, app: Revision | None
) -> str:
    """Return the `__init__.py` of the package that holds the revisions, with the names of the app in one of them, or
    without them. `connect` returns a client of that revision, or of the newest."""
    default = app or revisions[-1]
    context: dict[str, Any] = {
        "revisions": [
            (literal(revision.id), revision.module, literal(revision.lifecycle.style)) for revision in revisions
        ],
        "default": default,
        "default_id": literal(default.id),
        "conversions": [
            (literal(older.id), literal(newer.id), converter_module(older, newer)) for older, newer in neighbours
        ],
        "generator": GENERATOR,
        "app": _APP if app is not None else {},
    }
    return print_template("index.py.jinja2", context, templates)


def render_areas(templates: Templates) -> dict[str, str]:
    """Return the modules that export an area of the runtime, by name."""
    texts = {
        f"{name}.py": {"module": module, "doc": doc, "generator": GENERATOR} for name, (module, doc) in _AREAS.items()
    }
    return {name: print_template("area.py.jinja2", context, templates) for name, context in texts.items()}


def render_compat(newest: Revision, handshake: Revision, templates: Templates) -> dict[str, str]:
    """Return the modules with the names of the official SDK, by name.

    `handshake` is the newest revision with a handshake, which has requests that the newest revision has not.
    """
    context = {"newest": newest.module, "handshake": handshake.module, "generator": GENERATOR}
    texts = {"compat/__init__.py": "compat.py.jinja2", "compat/types.py": "compat_types.py.jinja2"}
    return {name: print_template(template, context, templates) for name, template in texts.items()}


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


def declared_types(revision: Revision, templates: Templates, own: frozenset[str] | None = None) -> str:
    """Return the declarations of types.py, in order; only of `own` types, if they are named. Raises CodegenError for a
    template that is broken."""
    return arrange(revision, declarations(revision, templates, own) | second_names(revision, own))


def _handshake_fields(revision: Revision) -> list[tuple[str, str]]:
    return [(name, ascii(value)) for name, value in revision.lifecycle.fields.items()]
