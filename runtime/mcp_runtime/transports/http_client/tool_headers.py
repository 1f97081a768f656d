"""The tool arguments to repeat in HTTP headers, as the input schemas of the last list of tools declare them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ...http.client_rules import Outgoing
from ...http.param_headers import TOOLS, ArgumentPaths, read_tool_headers
from ...protocol.jsonrpc import Message, RequestMessage, ResultMessage
from ...protocol.models import is_object
from ...protocol.revision import Revision

_log: Final = logging.getLogger(__name__)

_NONE: Final[ArgumentPaths] = {}


class ToolHeaderCache:
    """The header declarations of the tools of one server."""

    def __init__(self) -> None:
        self._paths: dict[str, ArgumentPaths] = {}

    def paths_for(self, message: Outgoing, revision: Revision) -> ArgumentPaths:
        """Return the paths of the arguments to repeat, by header; empty if the message is not a call of a tool."""
        row = revision.http.tool_call
        if row is None or not isinstance(message, RequestMessage) or message.method != row.method:
            return _NONE
        params: Mapping[str, object] = message.params if is_object(message.params) else {}
        name = params.get(revision.http.name_params.get(message.method, ""))
        return self._paths.get(str(name), _NONE)

    def read(self, request: RequestMessage, response: Message, revision: Revision) -> None:
        """Store the declarations of a list of tools, and remove the tools whose declarations are invalid."""
        row = revision.http.tool_schemas
        if row is None or request.method != row.method or not isinstance(response, ResultMessage):
            return
        name_of_list = revision.name_of(TOOLS)
        if not is_object(response.result) or name_of_list not in response.result:
            return
        tools = read_tool_headers(response.result[name_of_list], revision)
        self._paths.update(tools.paths)
        if tools.rejected:
            response.result[name_of_list] = tools.tools
        for name, reason in tools.rejected.items():
            self._paths.pop(name, None)
            _log.warning("the tool %r is ignored: %s", name[:200], reason)
