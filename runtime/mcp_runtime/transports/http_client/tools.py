"""Lists of tools go in; which arguments of a call are repeated in headers comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...exchange import log
from ...http.asking import Paths, read_tools
from ...jsonrpc import Message, RequestMessage, ResultMessage
from ...spec import Revision
from ...wire import is_object

_NONE: Final[Paths] = {}
LIST: Final = "tools"


class Annotations:
    """What the last lists of a server said."""

    def __init__(self) -> None:
        self._paths: dict[str, Paths] = {}

    def of(self, message: Message | list[Message], revision: Revision) -> Paths:
        """The paths of the arguments to repeat, by header, where the message is a call of a tool."""
        row = revision.http.arguments
        if row is None or not isinstance(message, RequestMessage) or message.method != row.method:
            return _NONE
        return self._paths.get(str(called(message, revision)), _NONE)

    def read(self, asked: RequestMessage, answer: Message, revision: Revision) -> None:
        """Note what a list says, and take the tools out of it that may not be used."""
        row = revision.http.schemas
        if row is None or asked.method != row.method or not isinstance(answer, ResultMessage):
            return
        if not is_object(answer.result) or LIST not in answer.result:
            return
        tools = read_tools(answer.result[LIST])
        self._paths.update(tools.paths)
        if tools.left_out:
            answer.result[LIST] = tools.kept
        for name, why in tools.left_out.items():
            self._paths.pop(name, None)
            log.warning("the tool %r is left out: %s", name[:200], why)


def called(message: RequestMessage, revision: Revision) -> object:
    """The name of the tool that is called."""
    params: Mapping[str, object] = message.params if is_object(message.params) else {}
    return params.get(revision.http.names.get(message.method, ""))
