"""The trial of a revision: what is generated for it is imported, type-checked, and holds a conversation.

This proves after an import that nothing fails later. Each problem becomes a finding with its place.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ..catalog import SchemaCatalog
from ..errors import CodegenError, Finding, Json
from ..generate import generate
from ..importer.references import Schema
from ..model.ir import Alias, Array, Field, Map, Method, Object, Plain, Ref, Revision, Type, Union, Values
from ..model.lifecycle import check_known_names
from ..model.names import matching_text
from ..output import temporary_folder
from ..paths import data_path, source_of
from ..render.calls import TABLES, MethodView, method_views
from ..render.types import literal
from ..testkit.messages import MessageFactory

# The programs of a trial: processes that find the generated package and the runtime.

_SECONDS: Final = 300.0  # For a process on a busy machine.

AGAIN: Final = "correct the schema there, or try again on a machine that does less"
# The rule that stopped a conversion, in the text of its error: from, to, what it did, and where.
_RULE: Final = re.compile(r"([\w.-]+) → ([\w.-]+): .*?\b(require|refuse|misfit|first|null|few|method) ([\w./*-]+)")
_UNHANDLED: Final = re.compile(r"'([\w./-]+)' is not served")
_UNREAD: Final = re.compile(r"the runtime reads '(\w+)'")
_UNFILLED: Final = re.compile(r"([\w./@-]+): Field required")
_REMEDIES: Final = {
    "require": "write a row of [[rename]] or [[default]] for {place} in schema/conversions.toml",
    "method": "write a row of [[rename]] or [[method]] with method = '{place}' in schema/conversions.toml",
}
_REMEDY: Final = "write a row for {place} in schema/conversions.toml"
# What else a text tells, and the sentence about the name in it.
_OTHERS: Final = (
    (_UNHANDLED, _REMEDIES["method"]),
    (
        _UNREAD,
        "write a row of [[rename]] in schema/conversions.toml with the name that {place} has now, or adapt the runtime",
    ),
    (
        _UNFILLED,
        "write a row of [[default]] in schema/overlay.toml with the value of {place}, a row of [[rename]] in "
        "schema/conversions.toml if it is a new name, or adapt the runtime, which sends this",
    ),
)
_ANYTHING: Final = (
    "write a row of [[rename]] in schema/conversions.toml for what has another name now, or adapt the runtime"
)
_PAIRS: Final = "pairs.py"

_PACKAGE: Final = "bindings"
_PROGRAM: Final = "conversation.py"
_CONFIGURATION: Final = "[mypy]\nstrict = true\npython_version = 3.11\nno_site_packages = false\n"
_ERROR: Final = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: (?P<text>.*)$", re.MULTILINE)
_MAX_FINDINGS: Final = 20  # Findings of one step.

_TEXTS: Final = (
    "text",
    "https://example.org/",
    "file:///text",
    "aGk=",
    "a",
    "A",
    "1",
    "a/b",
    "",
    *("0" * length for length in (8, 16, 32, 40, 64, 128)),
)
_ADDRESSES: Final = ("uri", "url", "uritemplate")
_DEPTH: Final = 4  # Objects inside of objects that have their optional properties.
# Optional properties without a sample: metadata, and the names that a JSON Schema requires, which it has to declare.
_OMITTED: Final = ("_meta", "required")
Plan = dict[str, Any]
_SIDES: Final = ("client", "server")
# What the runtime adds to a request that it repeats with the answers to input requests.
_REPEATED: Final = ("requestState", "inputResponses")


def run_program(name: str, plan: Path, folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Run a program of this package with a plan; None if it does not end."""
    return run([sys.executable, "-P", "-W", "ignore", str(Path(__file__).with_name(name)), str(plan)], folder)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str] | None:
    """Run a command that finds the package in the folder, and the runtime; None if it does not end."""
    here = Path(__file__).parent
    sources = [str(source_of(package).parent) for package in ("mcp_runtime", "mcp_products")]
    path = os.pathsep.join([str(folder), str(here), *sources, *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "MYPYPATH": os.pathsep.join(sources), "PYTHONUTF8": "1"}
    try:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return None


def last_line(done: subprocess.CompletedProcess[str] | None) -> str:
    """Return the last line that a program wrote, or why there is none."""
    if done is None:
        return "it did not end"
    return ((done.stderr or done.stdout).strip().splitlines() or ["no message"])[-1]


# What to write so that a conversation of a trial goes on, by the text of what stopped it.


def rule_of(text: str) -> str:
    """Return the rule of a conversion that a text names, such as `require Tool.risk`; an empty text without one."""
    rule = _RULE.search(text)
    return "" if rule is None else f"{rule[3]} {rule[4]}"


def remedy(text: str) -> str:
    """Return what to write so that a conversation goes on, in a sentence without a full stop."""
    rule = _RULE.search(text)
    if rule is not None:
        return _REMEDIES.get(rule[3], _REMEDY).format(place=rule[4])
    found = ((pattern.search(text), sentence) for pattern, sentence in _OTHERS)
    return next((sentence.format(place=match[1]) for match, sentence in found if match is not None), _ANYTHING)


# The conversations of a trial between revisions: what does not work becomes a finding, which says what to write.


def converse_in_pairs(
    schemas: SchemaCatalog, folder: Path, package: str, has_app: bool, **limits: Any
) -> Iterator[Finding]:
    """Let each revision serve clients of each other one, with a class and with the app, over each transport. Yield a
    finding for each place that does not work; the text names a conversation, and how many others fail like it.

    `limits` may name some `transports`, and the one revision that has to be in each pair, as `only`.
    """
    revisions: dict[str, Any] = {}
    for name in schemas.pins:
        plan = PlanMaker(schemas.revision(name), schemas.normalized(name)[0]).plan()
        revisions[name] = {**plan, "types": {}, "module": schemas.revision(name).module}
    whole = {"package": package, "revisions": revisions, **({"app": package} if has_app else {}), **limits}
    plan_file = folder / "pairs.json"
    plan_file.write_text(json.dumps(whole), encoding="utf-8")
    done = run_program(_PAIRS, plan_file, folder)
    if done is None or done.returncode:
        text = f"the conversations between revisions stopped: {last_line(done)}; {AGAIN}"
        yield Finding("conversation", "pairs", text)
        return
    result = json.loads(done.stdout)
    alike: dict[str, list[dict[str, str]]] = {}
    for problem in result["problems"]:  # One rule that is missing stops many messages of many conversations.
        cause = rule_of(problem["text"]) or f"{problem['at']}: {problem['text']}"
        alike.setdefault(cause, []).append(problem)
    for problems in list(alike.values())[:_MAX_FINDINGS]:
        at, text, cell = problems[0]["at"], problems[0]["text"], problems[0]["cell"]
        cells = len({problem["cell"] for problem in problems})
        others = f" (and {cells - 1} more of {result['cells']} conversations)" if cells > 1 else ""
        yield Finding("conversation", at, f"{at} does not work for {cell}{others}: {text}; {remedy(text)}")


def try_revision(schemas: SchemaCatalog, revision: str, *, type_check: bool = True) -> Sequence[Finding]:
    """Generate, import, type-check and use the bindings of one revision in a temporary folder.

    Types are only checked where mypy is installed. Return a finding for each problem; nothing for a revision that
    works.
    """
    with temporary_folder() as folder:
        try:
            return tuple(_try(schemas, revision, folder, type_check))
        except CodegenError as error:
            return error.findings


def _try(schemas: SchemaCatalog, revision: str, folder: Path, type_check: bool) -> Iterator[Finding]:
    list(schemas.steps)
    package = folder / _PACKAGE
    files = generate(schemas, (data_path("templates"),), package, list(schemas.pins))
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    derived = schemas.revision(revision)
    if by_hand := list(check_known_names(derived, schemas.overlay)):
        yield from by_hand
        return
    maker = PlanMaker(derived, schemas.normalized(revision)[0])
    plan = maker.plan()
    if maker.findings:  # Without samples there is nothing to talk about.
        yield from maker.findings
        return
    own = {schemas.revision(name).module for name in schemas.pins} - {derived.module}
    modules = [path.relative_to(folder) for path in files if path.suffix == ".py"]
    plan |= {
        "package": f"{_PACKAGE}.{derived.module}",
        "modules": [_module(path) for path in modules if path.parts[1] not in own],
    }
    has_app = package / "app.py" in files
    if has_app:
        plan["app"] = _PACKAGE
    findings = list(_converse(folder, plan, revision))
    yield from findings
    if not findings and len(schemas.pins) > 1:
        yield from converse_in_pairs(schemas, folder, _PACKAGE, has_app)
    if type_check and importlib.util.find_spec("mypy") is not None:
        yield from _check_types(folder, revision, derived.module)


def _module(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _converse(folder: Path, plan: dict[str, Any], revision: str) -> Iterator[Finding]:
    plan_file = folder / "plan.json"
    plan_file.write_text(json.dumps(plan), encoding="utf-8")
    done = run_program(_PROGRAM, plan_file, folder)
    if done is None or done.returncode:
        text = f"{revision}: the conversation of its bindings stopped: {last_line(done)}; {AGAIN}"
        yield Finding("conversation", revision, text)
        return
    for problem in json.loads(done.stdout)[:_MAX_FINDINGS]:
        text = f"{revision}: {problem['at']} does not work in the generated bindings: {problem['text'].rstrip('.')}"
        text = f"{text}; {remedy(problem['text'])}"
        yield Finding("conversation", problem["at"], text)


def _check_types(folder: Path, revision: str, module: str) -> Iterator[Finding]:
    configuration = folder / "mypy.ini"
    configuration.write_text(_CONFIGURATION, encoding="utf-8")
    # The types of the runtime, which are checked once; in a folder that only this user can write.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcp-codegen" / "mypy"
    command = ["-m", "mypy", "--config-file", str(configuration), "--cache-dir", str(cache), "--no-error-summary"]
    command += ["--follow-imports", "silent"]  # The other revisions were checked when they were imported.
    done = run([sys.executable, *command, "-p", f"{_PACKAGE}.{module}"], folder)
    if done is None or done.returncode not in (0, 1):
        last = last_line(done)
        yield Finding("types", revision, f"{revision}: mypy could not check its bindings: {last}; pass --no-type-check")
        return
    for match in list(_ERROR.finditer(done.stdout))[:_MAX_FINDINGS]:
        place = f"{Path(match['file']).name}:{match['line']}"
        text = f"{revision}: mypy refuses the generated {place}: {match['text']}"
        yield Finding("types", place, f"{text}; correct the type in the schema, or pass --no-type-check")


# Sample values of the types of a revision, as JSON: the smallest value, and one with the optional properties.


class NoSampleError(Exception):
    """No value of a type can be made; the argument says why."""


class Samples:
    """The samples of one revision."""

    def __init__(self, revision: Revision) -> None:
        self._types = revision.types

    def smallest(self, written: Type) -> Json:
        """Return a value with the required properties only. Raises NoSampleError if there is none."""
        return self._make(written, "", _DEPTH)

    def whole(self, written: Type) -> Json:
        """Return a value with optional properties as well. Raises NoSampleError if there is none."""
        return self._make(written, "", 0)

    @cached_property
    def _heights(self) -> dict[str, int]:
        """Return the number of types inside of each other that the smallest value of a type has, by name. A type that
        always contains itself is missing."""
        heights: dict[str, int] = {}
        while True:
            added = {
                name: height
                for name, defined in self._types.items()
                if name not in heights and (height := _height(defined, heights)) is not None
            }
            if not added:
                return heights
            heights |= added

    def _make(self, written: Type, wire: str, depth: int) -> Json:
        match written:
            case Ref(name):
                return self._named(name, wire, depth)
            case Plain():
                return _plain(written, wire)
            case Values(values):
                return values[0]
            case Array(items, maximum, minimum):
                expected = minimum or (1 if depth < _DEPTH and _finite(items, self._heights) else 0)
                size = expected if maximum is None else min(expected, maximum)
                return [self._make(items, wire, depth + 1) for _ in range(size)]
            case Map(values):
                return {wire or "key": self._make(values, "", depth + 1)} if depth < _DEPTH - 1 else {}
            case Union(arms):
                arms = tuple(arm for arm in arms if _finite(arm, self._heights)) or arms
                simple = min(arms, key=lambda arm: _type_height(arm, self._heights) or 0)
                return self._make(arms[-1] if depth < _DEPTH - 1 else simple, wire, depth)

    def _named(self, name: str, wire: str, depth: int) -> Json:
        if name not in self._heights:
            raise NoSampleError(
                f"{name} has no finite value: it always contains itself; make one of the properties inside optional"
            )
        defined = self._types[name]
        if isinstance(defined, Alias):
            return self._make(defined.type, wire, depth)
        return {field.wire: self._property(field, depth) for field in self._chosen(defined, depth)}

    def _chosen(self, defined: Object, depth: int) -> Iterator[Field]:
        for field in defined.fields:
            optional = depth < _DEPTH - 1 and field.wire not in _OMITTED and _finite(field.type, self._heights)
            if field.required or optional:
                yield field

    def _property(self, field: Field, depth: int) -> Json:
        return field.constant if field.constant is not None else self._make(field.type, field.wire, depth + 1)


def _height(defined: Object | Alias, heights: dict[str, int]) -> int | None:
    types = (
        [field.type for field in defined.fields if field.required] if isinstance(defined, Object) else [defined.type]
    )
    inner = [_type_height(written, heights) for written in types]
    return None if None in inner else 1 + max((height for height in inner if height is not None), default=0)


def _type_height(written: Type, heights: dict[str, int]) -> int | None:
    match written:
        case Ref(name):
            return heights.get(name)
        case Array(items, _, minimum):
            return _type_height(items, heights) if minimum else 0
        case Union(arms):
            return min((height for arm in arms if (height := _type_height(arm, heights)) is not None), default=None)
        case _:
            return 0


def _finite(written: Type, heights: dict[str, int]) -> bool:
    return _type_height(written.items if isinstance(written, Array) else written, heights) is not None


def _plain(plain: Plain, wire: str) -> Json:
    match plain.kind:
        case "string":
            return _text(plain, wire)
        case "integer" | "number":
            return _number(plain)
        case "boolean":
            return True
        case "null":
            return None
        case "any":
            return {}


def _number(plain: Plain) -> int | float:
    if plain.minimum is not None and plain.maximum is not None and plain.minimum > plain.maximum:
        raise NoSampleError(f"no number is at least {plain.minimum} and at most {plain.maximum}; correct the bounds")
    number = max(1, plain.minimum) if plain.minimum is not None else 1
    return min(number, plain.maximum) if plain.maximum is not None else number


def _text(plain: Plain, wire: str) -> str:
    texts = _TEXTS[1:] if wire.lower().endswith(_ADDRESSES) else _TEXTS
    least, maximum_length = plain.min_length or 0, plain.max_length
    if maximum_length is not None and least > maximum_length:
        text = f"no text has at least {least} and at most {maximum_length} characters; correct the lengths"
        raise NoSampleError(text)
    matching = () if plain.pattern is None else (matching_text(plain.pattern) or "",)
    sized = (text[:maximum_length].ljust(least, "x") for text in (*plain.open_values, *texts, *matching))
    fitting: Any = next((text for text in sized if plain.pattern is None or re.search(plain.pattern, text)), None)
    if fitting is None:
        text = f"no text is known that matches the pattern {plain.pattern!r} with these lengths; write a simpler one"
        raise NoSampleError(text)
    return str(fitting)


class PlanMaker:
    """The plan for one revision. `findings` has the types and messages of which no sample can be made."""

    def __init__(self, revision: Revision, normalized: Schema) -> None:
        self._revision = revision
        self._factory = MessageFactory(revision, normalized, seed=0)
        self._samples = Samples(revision)
        self.findings: list[Finding] = []

    def plan(self) -> Plan:
        """Return the plan as JSON, without the names of the modules. Raises CodegenError if no capabilities cover the
        methods."""
        revision = self._revision
        views = method_views(revision)
        roles = revision.lifecycle.roles
        first = roles.get("initialize_request") or roles.get("discover") or ""
        return {
            "types": {name: self._samples_of(name, name) for name in revision.types},
            "lifecycle": next((row.result or "" for row in revision.methods if row.method == first), first),
            "carrier": self._carrier(views["FromClient"]),
            "carried": next(
                (
                    row.method
                    for view, row in self._rows(views["FromClient"], "client_to_server")
                    if view.handler == self._carrier(views["FromClient"])
                ),
                "",
            ),
            "capabilities": {side: self._capabilities(side) for side in _SIDES},
            **{
                direction: [self._call(view, row) for view, row in self._rows(views[table], direction)]
                for direction, table in TABLES.items()
            },
        }

    def _rows(self, views: tuple[MethodView, ...], direction: str) -> list[tuple[MethodView, Method]]:
        rows = [row for row in self._revision.methods if row.direction == direction]
        return list(zip(views, rows, strict=True))

    def _capabilities(self, side: str) -> dict[str, Any]:
        """Return capabilities that all methods, and all params, of this revision can be sent with."""
        declared = self._factory.declared_capabilities(side)
        for row in self._revision.methods:
            for requirement in row.requirements:
                owner, *path = requirement.capability.split(".")
                at = declared
                for segment in path if owner == side else ():
                    at = at.setdefault(segment, {})
        return declared

    def _carrier(self, views: tuple[MethodView, ...]) -> str:
        """Return the handler in which the server sends its own messages: of a request with a result that carries input
        requests, if these exist."""
        rows = self._rows(views, "client_to_server")
        handled = [(view, row) for view, row in rows if view.handled and view.sent and row.kind == "request"]
        carrying = [view for view, row in handled if any(interim.value is not None for interim in row.interim)]
        return next((view.handler for view in (*carrying, *(view for view, _ in handled))), "")

    def _call(self, view: MethodView, row: Method) -> Plan:
        params = self._revision.types[row.params] if row.params is not None else None
        attributes = {literal(field.wire): field.name for field in params.fields} if isinstance(params, Object) else {}
        return {
            "at": row.type,
            "method": row.method,
            "name": view.name,
            "handler": view.handler,
            "sent": view.sent and row.method != self._revision.lifecycle.roles.get("log"),
            "handled": view.handled,
            "params": row.params,
            "whole": bool(view.whole),
            "fields": {
                parameter.name: attributes[parameter.wire]
                for parameter in view.fields
                if parameter.required or parameter.wire not in map(literal, _REPEATED)
            },
            "samples": self._samples_of(row.params, row.type) if row.params is not None else [{}],
            "result": row.result,
            "results": self._samples_of(row.result, row.type) if row.result is not None else [],
        }

    def _samples_of(self, name: str, at: str) -> list[Json]:
        try:
            return [self._samples.smallest(Ref(name)), self._samples.whole(Ref(name))]
        except NoSampleError as error:
            if not any(finding.text.endswith(str(error)) for finding in self.findings):
                self.findings.append(Finding("sample", at, f"{self._revision.id}: {error}"))
            return []
