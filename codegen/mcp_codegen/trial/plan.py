"""The plan of a conversation: what each side sends and answers, with samples."""

from __future__ import annotations

from typing import Any, Final

from ..errors import Finding
from ..importer.schema_references import Schema
from ..json_types import Json
from ..model.ir import Method, Object, Ref, Revision
from ..render.calls import TABLES, MethodView, method_views
from ..render.types import literal
from ..testkit.messages import MessageFactory
from .samples import NoSampleError, Samples

Plan = dict[str, Any]
_SIDES: Final = ("client", "server")
# What the runtime adds to a request that it repeats with the answers to input requests.
_REPEATED: Final = ("requestState", "inputResponses")


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
