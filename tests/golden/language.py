"""The language of the golden conversations: a line of a file goes in, the bytes to send or the JSON to expect come out,
and where that differs from what was received."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from conftest import package

from mcp_generated import REVISIONS
from mcp_runtime.spec import Handshake

ANYTHING: Final = "..."
ANY_ORDER: Final = "(any order)"
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
    if found := re.match(r"@(line|deep) (\d+) (.*)", text):
        number = int(found[2])
        if found[1] == "line":
            return found[3].replace("$PAD", "x" * (number - len(found[3].encode()) + len("$PAD")))
        return found[3].replace("$DEEP", "[" * number + "]" * number)
    return text


def bytes_of(text: str) -> bytes:
    r"""The bytes to send: \xff, which JSON does not have, is the byte 255."""
    return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode())


def difference(expected: Any, received: Any, path: str = "the message") -> str | None:
    """Where the two differ first, types included; None where they are the same."""
    if expected == ANYTHING:
        return None
    if type(expected) is not type(received):
        return f"{path} is {json.dumps(received)}"
    if isinstance(expected, str):
        pattern = ".*".join(map(re.escape, expected.split(ANYTHING)))
        return None if re.fullmatch(pattern, received, re.DOTALL) else f"{path} is {json.dumps(received)}"
    if isinstance(expected, list):
        if expected[:1] == [ANY_ORDER] and isinstance(received, list):
            return _difference_of_sets(expected[1:], received, path)
        if len(expected) != len(received):
            return f"{path} has {len(received)} items"
        pairs = [(each, got, f"{path}[{at}]") for at, (each, got) in enumerate(zip(expected, received, strict=True))]
        return next((fault for pair in pairs if (fault := difference(*pair))), None)
    if isinstance(expected, dict):
        return _difference_of_objects(expected, received, path)
    return None if expected == received else f"{path} is {json.dumps(received)}"


def _difference_of_sets(expected: list[Any], received: list[Any], path: str) -> str | None:
    """Lists whose order means nothing; no item of a file's list fits two of the received that differ."""
    left = list(received)
    for each in expected:
        fitting = next((got for got in left if difference(each, got) is None), None)
        if fitting is None:
            return f"{path} has no {json.dumps(each)}"
        left.remove(fitting)
    return f"{path} has more: {json.dumps(left)}" if left else None


def _difference_of_objects(expected: dict[str, Any], received: dict[str, Any], path: str) -> str | None:
    known = {key.removesuffix("?") for key in expected}
    if unknown := sorted(received.keys() - known):
        return f"{path} has more: {', '.join(unknown)}"
    for key, value in expected.items():
        name = key.removesuffix("?")
        if value == "(absent or null)" and received.get(name) is None or name not in received and key != name:
            continue
        if value == "(absent)":
            if name in received:
                return f"{path} has {name}"
        elif name not in received:
            return f"{path} has no {name}"
        elif fault := difference(value, received[name], f"{path}.{name}"):
            return fault
    return None
