"""The canonical form of a revision, without differences that are not visible on the wire.

Some revisions declare the envelope of a message (`jsonrpc`, `id`) in every message and some separately; some declare
the common properties of params only in the base message. Neither makes a difference on the wire.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..model.ir import Alias, Field, Object, Ref, Revision

_ENVELOPES: Final = {"Request": "JSONRPCRequest", "Notification": "JSONRPCNotification"}
_BASES: Final = {"request": "Request", "input_request": "Request", "notification": "Notification"}


def canonical(revision: Revision) -> Revision:
    """Return the revision with messages without their envelope, and params with all properties that they may have."""
    types = dict(revision.types)
    for message in revision.objects():
        if message.field("method") is not None:
            types[message.name] = _without(message, _envelope(message, revision))
    for row in revision.methods:
        params = types.get(row.params or "")
        if isinstance(params, Object):
            missing = tuple(field for field in _common(_BASES[row.kind], revision) if params.field(field.wire) is None)
            types[params.name] = replace(params, fields=(*params.fields, *missing))
    return replace(revision, types=types)


def _without(message: Object, names: set[str]) -> Object:
    extends = tuple(name for name in message.extends if name not in _BASES.values() and name not in _ENVELOPES.values())
    return replace(message, fields=tuple(field for field in message.fields if field.wire not in names), extends=extends)


def _envelope(message: Object, revision: Revision) -> set[str]:
    """Return the envelope properties of this kind of message."""
    if message.name in (*_ENVELOPES, *_ENVELOPES.values()):
        return set()
    properties: set[str] = set()
    for base, whole in _ENVELOPES.items():
        if message.name.endswith(base):
            names = [_names(revision.types.get(name)) for name in (base, whole)]
            properties = names[1] - names[0]
    return properties


def _names(type: Object | Alias | None) -> set[str]:
    return {field.wire for field in type.fields} if isinstance(type, Object) else set()


def _common(base: str, revision: Revision) -> tuple[Field, ...]:
    """Return the properties that the params of every message have."""
    message = revision.types.get(base)
    params = message.field("params") if isinstance(message, Object) else None
    inner = revision.types.get(params.type.name) if params is not None and isinstance(params.type, Ref) else None
    return inner.fields if isinstance(inner, Object) else ()
