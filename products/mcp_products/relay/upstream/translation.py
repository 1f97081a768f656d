"""The conversion of messages between the revision of a client and that of an upstream."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from mcp_products.versions.conversion import chain_of
from mcp_products.versions.conversion.chain import Chain
from mcp_products.versions.conversion.operations import ConversionReport, Loss
from mcp_products.versions.messages import MessageConverter
from mcp_runtime.errors import ConversionError, JSONRPCError, RemoteJSONRPCError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_runtime.protocol.lifecycle import Capabilities
from mcp_runtime.protocol.models import is_object
from mcp_runtime.protocol.revision import META, Direction, InputRequest, Request, Revision, Stateless
from mcp_runtime.usage.texts import shortened

from .raw import FROM_CLIENT, FROM_SERVER

# What could not pass: counted by kind, and logged once for each kind.

_log: Final = logging.getLogger("mcp_runtime.bridge")

_MAX_KINDS: Final = 1000
_MAX_REASON: Final = 1000  # Characters, as those of a kind have a limit: both may repeat what a peer has sent.
# What the bridge itself writes or reads, so that nothing is lost without its conversion.
_OWN: Final = (META, ".resultType", ".inputResponses", ".requestState", "InputRequiredResult")
IGNORE: Final = "ignore"
LIFECYCLE_META: Final = tuple(
    f"{META}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities", "logLevel")
)


def is_own(rule: str) -> bool:
    """Return True if a rule drops only what the bridge itself handles."""
    return any(name in rule for name in _OWN)


class AnsweredError(JSONRPCError):
    """The error that the other side has answered with: it has the request, and is done with it."""


class LossCounter:
    """The losses of a bridge: how often each kind occurred."""

    def __init__(self) -> None:
        """Create a counter without losses."""
        self.counts: dict[str, int] = {}

    def add(self, kind: str, reason: str) -> None:
        """Count a loss; log the first of its kind."""
        kind = shortened(kind)
        count = self.counts.get(kind, 0)
        if not count:
            if len(self.counts) >= _MAX_KINDS:
                return
            _log.warning("lost: %s (%s)", kind, shortened(reason, _MAX_REASON))
        self.counts[kind] = count + 1

    def add_all(self, losses: list[Loss], place: str) -> None:
        """Count the losses of a conversion; `place` is what was converted."""
        for loss in losses:
            if not is_own(loss.rule):
                self.add(f"{place}: {loss.rule}", loss.reason)


class Translation:
    """The conversion between two revisions: `down` is that of the client, `up` that of the upstream."""

    def __init__(self, down: Revision, up: Revision, losses: LossCounter) -> None:
        """Create the conversion; `losses` counts what the other revision cannot represent."""
        self.down = down
        self.up = up
        self.losses = losses
        self.is_same = down.id == up.id
        self._to_up = chain_of(down.package, down.id, up.id)
        self._to_down = chain_of(down.package, up.id, down.id)
        self.up_is_stateless = isinstance(up.lifecycle, Stateless)

    # ---- messages ----------------------------------------------------------------------------------------------------

    def has(self, direction: Direction, method: str) -> str:
        """Return how the receiver of a message treats its method: empty if it passes, or else `ignore`, `refuse` or
        `runtime`."""
        removal = self._towards(direction).removed_method(direction, method)
        if removal is None:
            return ""
        if removal.response != "runtime":
            self.losses.add(method, removal.reason)
        return removal.response

    def method(self, direction: Direction, method: str) -> str:
        """Return the name that a method has in the receiver's revision."""
        return self._towards(direction).method(direction, method)

    def require(self, direction: Direction, method: str) -> None:
        """Raise JSONRPCError if the receiver's revision does not have this request."""
        if self.has(direction, method) not in ("", "runtime"):
            raise JSONRPCError(METHOD_NOT_FOUND, f"{method!r} cannot be sent in {self._target(direction)}")

    def params(
        self, direction: Direction, method: str, params: Any, provided: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the params of a message for its receiver. Raises JSONRPCError if they cannot be represented."""
        if self.is_same:
            return params or {}
        report = ConversionReport()
        try:
            converted: dict[str, Any] = self._towards(direction).params(
                direction, method, params or {}, report, provided
            )
        except ConversionError as error:
            self.losses.add(f"{method}: {error.rule}", str(error))
            raise JSONRPCError(INVALID_PARAMS, str(error)) from None
        self.losses.add_all(report.losses, method)
        return converted

    def result(self, direction: Direction, method: str, result: Any) -> Any:
        """Return the result of a request of this direction for its sender. Raises JSONRPCError."""
        chain = self._to_down if direction == FROM_CLIENT else self._to_up
        source = self.up if direction == FROM_CLIENT else self.down
        if self.is_same or not is_object(result):
            return result
        report, name = ConversionReport(), self.method(direction, method)
        try:
            converted = chain.result(direction, name, result, report, interim_of(source, direction, name, result))
        except ConversionError as error:
            self.losses.add(f"{method} result: {error.rule}", str(error))
            raise JSONRPCError(INTERNAL_ERROR, str(error)) from None
        self.losses.add_all(report.losses, f"{method} result")
        return converted

    def error(self, direction: Direction, method: str, error: RemoteJSONRPCError) -> AnsweredError:
        """Return the error of a request of this direction for its sender."""
        chain = self._to_down if direction == FROM_CLIENT else self._to_up
        code = chain.error(direction, self.method(direction, method), error.code)
        return AnsweredError(code, error.message, error.data)

    def _towards(self, direction: Direction) -> Chain:
        return self._to_up if direction == FROM_CLIENT else self._to_down

    def _target(self, direction: Direction) -> str:
        return (self.up if direction == FROM_CLIENT else self.down).id

    def server_info(self, info: Any) -> Any:
        """Return the name, version and icons of the upstream in the revision of the client."""
        return self._to_down.convert_type("Implementation", info)

    # ---- capabilities ------------------------------------------------------------------------------------------------

    def server_capabilities(self, capabilities: Capabilities) -> Capabilities:
        """Return the capabilities of the upstream in the revision of the client."""
        if self.is_same:
            return capabilities
        return MessageConverter(self.up, self.down, FROM_CLIENT).wire_capabilities(capabilities)

    def client_capabilities(self, capabilities: Capabilities) -> Capabilities:
        """Return the capabilities of the client in the revision of the upstream."""
        if self.is_same:
            return capabilities
        return MessageConverter(self.down, self.up, FROM_SERVER).wire_capabilities(capabilities)


def interim_of(revision: Revision, direction: Direction, method: str, result: Any) -> str:
    """Return the name of the type of a result that is not the final one, where its fields tell; empty otherwise."""
    row = revision.table(direction).get(method)
    for interim in row.interim if isinstance(row, Request) else ():
        if interim.value is not None and result.get(interim.property) == interim.value:
            return interim.result.__name__
    return ""


def is_input_required(revision: Revision, method: str, result: Any) -> bool:
    """Return True if the result of a request of a client has requests of the server in it."""
    row = revision.table(FROM_CLIENT).get(method)
    interim = row.input_required if isinstance(row, Request) else None
    return interim is not None and is_object(result) and result.get(interim.property) == interim.value


def input_required_fields(revision: Revision, method: str) -> dict[str, Any]:
    """Return the fields that mark the result of a request as one with requests of the server; none if it cannot be."""
    row = revision.table(FROM_CLIENT).get(method)
    interim = row.input_required if isinstance(row, Request) else None
    return {} if interim is None else {interim.property: interim.value}


def is_input_request(revision: Revision, method: str) -> bool:
    """Return True if a result may have a request of this method in it."""
    return any(isinstance(row, InputRequest) and row.method == method for row in revision.rows)


def without_reserved_meta(params: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return params without these keys of the protocol in `_meta`, and without an empty `_meta`."""
    meta = params.get("_meta")
    if not is_object(meta):
        return params
    rest = {key: value for key, value in meta.items() if key not in names}
    others = {key: value for key, value in params.items() if key != "_meta"}
    return {**others, "_meta": rest} if rest else others
