"""A revision goes in, the same without differences in how it is written down comes out.

Some revisions declare the envelope of a message (`jsonrpc`, `id`) with every message and some apart from them; some
say what all params have in the base message alone. On the wire there is no difference, so none is compared.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..model.ir import Alias, Field, Object, Ref, Revision

_ENVELOPES: Final = {"Request": "JSONRPCRequest", "Notification": "JSONRPCNotification"}
_BASES: Final = {"request": "Request", "input_request": "Request", "notification": "Notification"}


def canonical(revision: Revision) -> Revision:
    """The revision with messages without their envelope, and with params that have all that they may hold."""
    types = dict(revision.types)
    for each in revision.objects():
        if each.field("method") is not None:
            types[each.name] = _without(each, _envelope(each, revision))
    for row in revision.methods:
        params = types.get(row.params or "")
        if isinstance(params, Object):
            missing = tuple(field for field in _common(_BASES[row.kind], revision) if params.field(field.wire) is None)
            types[params.name] = replace(params, fields=(*params.fields, *missing))
    return replace(revision, types=types)


def _without(each: Object, names: set[str]) -> Object:
    extends = tuple(name for name in each.extends if name not in _BASES.values() and name not in _ENVELOPES.values())
    return replace(each, fields=tuple(field for field in each.fields if field.wire not in names), extends=extends)


def _envelope(each: Object, revision: Revision) -> set[str]:
    """The properties of every message of this kind, those of the message proper left aside."""
    if each.name in (*_ENVELOPES, *_ENVELOPES.values()):
        return set()
    found: set[str] = set()
    for base, whole in _ENVELOPES.items():
        if each.name.endswith(base):
            names = [_names(revision.types.get(name)) for name in (base, whole)]
            found = names[1] - names[0]
    return found


def _names(each: Object | Alias | None) -> set[str]:
    return {field.wire for field in each.fields} if isinstance(each, Object) else set()


def _common(base: str, revision: Revision) -> tuple[Field, ...]:
    """What the params of every message have."""
    message = revision.types.get(base)
    params = message.field("params") if isinstance(message, Object) else None
    inner = revision.types.get(params.type.name) if params is not None and isinstance(params.type, Ref) else None
    return inner.fields if isinstance(inner, Object) else ()
