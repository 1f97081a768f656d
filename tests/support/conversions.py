"""Judges of conversions: what jsonschema says of a converted message, what it lacks that no report names, and what has
become of it on the way back."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, Final

import jsonschema

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.model.ir import Method, Revision
from mcp_codegen.testkit.messages import InstanceGenerator
from mcp_products.versions.conversion import Chain, ConversionReport, chain_of
from mcp_products.versions.conversion.operations import Operations
from mcp_runtime.errors import ConversionError
from support.project import ROOT, official

# What a conversion leaves out without a report, because the way back adds it; so it does with defaults.
_OF_THE_SESSION: Final = ("io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities")
# What says as much as nothing if it is empty; a server without completion refuses it by itself.
_SAY_NOTHING: Final = ("_meta", "annotations", "completions")
_UNKNOWN: Final = ("example.org/unknown", "unknownToAll")


@dataclass
class Side:
    """One revision: its messages, and the schema that judges them."""

    revision: Revision
    schema: dict[str, Any]

    @cached_property
    def section(self) -> str:
        return "$defs" if "$defs" in self.schema else "definitions"

    @cached_property
    def definitions(self) -> dict[str, Any]:
        types: dict[str, Any] = self.schema[self.section]
        return types

    @cached_property
    def rows(self) -> dict[tuple[str, str], Method]:
        return {(row.direction, row.method): row for row in self.revision.methods}

    @cached_property
    def defaults(self) -> set[tuple[str, str]]:
        """The values that constructors fill in, by the names of their properties."""
        fields = (field for defined in self.revision.objects() for field in defined.fields)
        return {(field.wire, json.dumps(field.constant)) for field in fields if field.constant is not None}

    @cached_property
    def _judges(self) -> dict[str, Any]:
        return {}

    def error(self, name: str, value: Any) -> str:
        """What the schema of a definition has against a value; empty for a valid one."""
        if name not in self._judges:
            kind = jsonschema.validators.validator_for(self.schema)
            self._judges[name] = kind({"$ref": f"#/{self.section}/{name}", self.section: self.definitions})
        error = jsonschema.exceptions.best_match(self._judges[name].iter_errors(value))
        return "" if error is None else f"{name}: {error.message} at {list(error.absolute_path)}"

    def message(self, method: str) -> str:
        """The definition of the message with this method."""
        return next(
            name
            for name, definition in self.definitions.items()
            if definition.get("properties", {}).get("method", {}).get("const") == method
        )


@cache
def released(id: str) -> Side:
    """A released revision, judged by its official schema. Its JSONValue lacks null and fractions, which is an error:
    schema.ts has them, and so does ours, which stands in for it here."""
    schema = official(id)
    section = "$defs" if "$defs" in schema else "definitions"
    ours = json.loads((ROOT / "schema" / id / "schema.json").read_text())["$defs"]
    values = {"JSONValue": ours["JSONValue"]} if "JSONValue" in ours else {}
    return Side(_catalog().revision(id), {**schema, section: {**schema[section], **values}})


@cache
def _catalog() -> SchemaCatalog:
    return SchemaCatalog(ROOT / "schema")


def drafted(catalog: SchemaCatalog, id: str = "draft") -> Side:
    """A revision of a catalog, judged by its normalized schema."""
    return Side(catalog.revision(id), catalog.normalized(id)[0])


def chain_in(catalog: SchemaCatalog, source: str, target: str) -> Chain:
    """The chain between two revisions of a catalog, of which nothing has to be generated."""
    order = list(catalog.pins)
    first, last = order.index(source), order.index(target)
    path = order[first : last + 1] if first <= last else order[last : first + 1][::-1]
    return Chain(source, target, [Operations(asdict(catalog.steps[pair])) for pair in pairwise(path)])


@dataclass
class Pair:
    """Two revisions, in one direction, and the conversions both ways."""

    source: Side
    target: Side
    forth: Chain
    back: Chain
    names: Mapping[str, str]  # The properties that have another name in the target.

    def rows(self) -> Iterator[tuple[Method, Method]]:
        """The rows of the source that the target has as well, each with that of the target."""
        for (direction, method), row in self.source.rows.items():
            if self.forth.removed_method(direction, method) is None:
                yield row, self.target.rows[direction, self.forth.method(direction, method)]

    def check(self, row: Method, other: Method, part: str, value: Any) -> str:
        """Convert the params or a result of one row there and back; return what has become of it.

        It is `refused`, or it is valid in the target, and `lost` if a report has what is missing, else `whole`.
        """
        report = ConversionReport()
        context = f"{row.method} {part} {self.forth.source} → {self.forth.target} of {value}"
        try:
            converted = self._converted(self.forth, row.direction, row.method, part, value, report)
        except ConversionError as refused:
            assert refused.rule and refused.rule in str(refused) and " → " in str(refused), context
            return "refused"
        complaint = self.target.error(*self._judged(other, part, converted))
        assert not complaint, f"{context}: {complaint}: {converted}"
        missing = self._missing(value, converted, report)
        assert not missing, f"{context}: lost in silence: {missing}, reported: {report.losses}"
        if report.losses:
            return "lost"
        again = self._converted(self.back, other.direction, other.method, part, converted, report)
        assert report.losses or plain(again) == plain(value), f"{context}: {again}"
        return "whole"

    def _converted(
        self, chain: Chain, direction: str, method: str, part: str, value: Any, report: ConversionReport
    ) -> Any:
        if part == "params":
            capabilities = value.get("_meta", {}).get(_OF_THE_SESSION[1], {"roots": {}})
            return chain.params(direction, method, value, report, {"client_capabilities": capabilities})
        return chain.result(direction, method, value, report, part.partition(" ")[2])

    def _judged(self, row: Method, part: str, value: Any) -> tuple[str, Any]:
        """The definition that judges a part of a message of the target, and what it judges."""
        if part == "params":
            envelope = {} if row.kind == "notification" else {"id": 1}
            return self.target.message(row.method), {
                "jsonrpc": "2.0",
                **envelope,
                "method": row.method,
                "params": value,
            }
        return part.partition(" ")[2] or str(row.result), value

    def _missing(self, value: Any, converted: Any, report: ConversionReport) -> Counter[tuple[str, str]]:
        """What the converted value lacks, by name and value, and no loss has in it."""
        kept = self._leaves(converted)
        for loss in report.losses:
            kept += self._leaves(loss.value, loss.path)
        before = self._leaves(value)
        defaults = self.source.defaults
        return Counter({leaf: count for leaf, count in (before - kept).items() if leaf not in defaults})

    def _leaves(self, value: Any, path: str = "") -> Counter[tuple[str, str]]:
        """Count the leaves of a value; a name that is another one in the target counts as that, wherever it stands."""
        return Counter((self.names.get(name, name), text) for name, text in leaves(value, path))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The texts, numbers, constants and empty collections in a value, each with the name of the nearest property."""
    yield from _leaves(value, re.sub(r"(\.\d+)+$", "", path))


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and (value or not name or name in _SAY_NOTHING):
        for key, item in value.items():
            if key not in _OF_THE_SESSION:
                yield from _leaves(item, key)
    elif isinstance(value, list) and value:
        for item in value:
            yield from _leaves(item, name)
    else:
        yield name.rpartition(".")[2], json.dumps(value)  # A path has dots, and so have some names.


def plain(value: Any) -> Any:
    """The value without what says as much as nothing, and without what the session knows."""
    if isinstance(value, dict):
        items = {key: plain(_single(key, item)) for key, item in value.items() if key not in _OF_THE_SESSION}
        return {key: item for key, item in items.items() if key not in _SAY_NOTHING or item != {}}
    return [plain(item) for item in value] if isinstance(value, list) else value


def _single(name: str, value: Any) -> Any:
    """The value without a list of one item around it, where older revisions have no list."""
    return value[0] if name == "content" and isinstance(value, list) and len(value) == 1 else value


def pair(source: str, target: str) -> Pair:
    """A pair of released revisions, with the generated conversions."""
    forth, back = chain_of("mcp_generated", source, target), chain_of("mcp_generated", target, source)
    return Pair(released(source), released(target), forth, back, {})


class Messages:
    """Valid messages of one side: random ones, with properties that no revision names."""

    def __init__(self, side: Side, seed: int) -> None:
        self._side = side
        self._generator = InstanceGenerator(side.definitions, seed)
        self._random = random.Random(seed)

    def of(self, row: Method, count: int) -> Iterator[tuple[str, Any]]:
        """Params and results of one row."""
        name = self._side.message(row.method)
        for _ in range(count):
            message = self._valid(name)
            if "params" in message:
                yield "params", message["params"]
            if row.result is not None:
                yield "result", self._valid(row.result)
                yield from ((f"result {interim.type}", self._valid(interim.type)) for interim in row.interim)

    def _valid(self, name: str) -> Any:
        value: Any = self._generator.valid(name)
        if self._random.random() < 0.5:
            extended = json.loads(json.dumps(value))
            self._extend(extended)
            value = value if self._side.error(name, extended) else extended
        return value

    def _extend(self, value: Any) -> None:
        if isinstance(value, dict):
            for item in value.values():
                self._extend(item)
            if self._random.random() < 0.3:
                value[self._random.choice(_UNKNOWN)] = self._random.choice([1, "text", None, {"a": [1]}])
        elif isinstance(value, list):
            for item in value:
                self._extend(item)
