"""The check of the protocol versions that a user lists."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..errors import LocalError
from ..protocol.revision import Revision
from ..usage.rules import are_texts, shown


def check_revisions(function: str, revisions: Any, own: Revision) -> None:
    """Raise LocalError unless `revisions` is "all" or a list of ids of protocol versions.

    Args:
        function: The name of the function, as its user calls it.
        revisions: The value of its argument.
        own: The protocol version of the endpoint, whose generated package lists the others.
    """
    if revisions == "all" or revisions == ():
        return
    existing: Mapping[str, str] = import_module(own.package).REVISIONS
    ids = ", ".join(existing)
    if not are_texts(revisions):
        raise LocalError(f'{function}(): revisions must be "all" or a list of {ids}; {shown(revisions)} is not')
    for id in revisions:
        if id not in existing and id != own.id:
            raise LocalError(f"{function}(): there is no protocol version {id!r}; there are {ids}")
