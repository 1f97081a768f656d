"""What the lines of a golden conversation stand for in each revision; the rest of their language is the test kit's."""

from __future__ import annotations

import re
from typing import Final

from support.project import package

from mcp_generated import REVISIONS
from mcp_runtime.protocol.revision import Handshake

HANDSHAKE: Final = [
    revision for revision in REVISIONS if isinstance(package(revision, "methods").REVISION.lifecycle, Handshake)
]
STATELESS: Final = [revision for revision in REVISIONS if revision not in HANDSHAKE]


def filled(text: str, revision: str) -> str:
    """The text with its placeholders filled in, and `@line` and `@deep` carried out."""
    stateless = revision in STATELESS
    newest = HANDSHAKE[-1]
    server = '{"name":"golden","version":"1.0"}'
    meta = (
        f'"io.modelcontextprotocol/protocolVersion":"{revision}",'
        '"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},'
        '"io.modelcontextprotocol/clientCapabilities":{}'
    )
    served = '"_meta?":{"io.modelcontextprotocol/serverInfo":%s}' % server
    capabilities = '"capabilities":{"tools":{},"resources":{}}'
    for name, value in {
        "HELLO": '"protocolVersion":"$REVISION","capabilities":{},"clientInfo":{"name":"raw","version":"1"}',
        "WELCOME": f'"protocolVersion":"$REVISION",{capabilities},"serverInfo":{server}',
        "CAPABILITIES": capabilities,
        "META": '"_meta":{%s}' % (meta if stateless else ""),
        "COMPLETE": f'"resultType":"complete",{served}' if stateless else '"resultType":"(absent)"',
        "CACHED": '"ttlMs":"...","cacheScope":"..."' if stateless else '"ttlMs":"(absent)","cacheScope":"(absent)"',
        "NO_ID": '"id":"(absent)"' if revision >= newest else '"id":null',
        "NEWEST": newest,
        "REVISION": revision,
    }.items():
        text = text.replace(f"${name}", value)
    if match := re.match(r"@(line|deep) (\d+) (.*)", text):
        number = int(match[2])
        if match[1] == "line":
            return match[3].replace("$PAD", "x" * (number - len(match[3].encode()) + len("$PAD")))
        return match[3].replace("$DEEP", "[" * number + "]" * number)
    return text
