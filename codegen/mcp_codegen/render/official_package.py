"""The distribution `mcp_types` of the official Python SDK: types, method tables, versions and validators, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ..model.forms import Form
from ..model.ir import Method, Revision
from ..paths import Templates
from .merged_types import Protocol, merge
from .official import Declarations, module_text, shown
from .source import GENERATOR, format_module, format_text, print_template
from .types import literal
from .wire_types import WireTypes

# The modules of a package, by their templates; that of `_types` is the one of `compat`.
_MODULES: Final = ("__init__", "jsonrpc", "methods", "version", "_wire_base")
_INDEXES: Final = ("__init__.py", "jsonrpc.py")  # What they import is for others.
_KEPT: Final = ("py.typed",)
_SIDES: Final = {"CLIENT": "client_to_server", "SERVER": "server_to_client"}
_CACHED: Final = "CacheableResult"


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
