"""One part of a target's result that cannot be sent on costs that part, and not the list or the result."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, Gateway, RemoteJSONRPCError

TEXT = {"role": "user", "content": {"type": "text", "text": "kept"}}
RESULTS: dict[str, dict[str, Any]] = {
    "resources/list": {
        "resources": [
            {"uri": "config", "name": "no scheme"},
            {"uri": "", "name": "empty"},
            {"uri": "x:a b", "name": "a space"},
            {"uri": "x:1", "name": "good"},
        ]
    },
    "resources/read": {
        "contents": [{"uri": "x:1", "blob": "!!"}, {"uri": "x:1", "text": "kept"}, {"uri": "", "text": "x"}]
    },
    "prompts/list": {"prompts": [{"name": "p"}, {"name": "bad"}]},
    "prompts/get": {
        "messages": [
            {"role": "user", "content": {"type": "image", "data": "!!", "mimeType": "image/png"}},
            {"role": "user", "content": {"type": "image", "data": "AA==", "mimeType": "png"}},
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "x:1", "text": "no type"}}},
            {"role": "user", "content": {"type": "resource", "resource": {"uri": "x:1", "blob": "AA=="}}},
            TEXT,
        ]
    },
}
# A server that answers with RESULTS, without any implementation of the protocol; the prompt "bad" has only its first
# message.
SERVER = """
import json, sys
revision, results = sys.argv[1], json.loads(sys.argv[2])
capabilities = {"prompts": {}, "resources": {}}
lasting = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if revision > "2026" else {}
if lasting:
    results["server/discover"] = {"supportedVersions": [revision], "capabilities": capabilities}
else:
    party = {"name": "raw", "version": "1"}
    results["initialize"] = {"protocolVersion": revision, "capabilities": capabilities, "serverInfo": party}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = results.get(message["method"])
        if result is not None and message["params"].get("name") == "bad":
            result = {"messages": result["messages"][:1]}
        answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": {**result, **lasting}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize("relay", ["proxy", "gateway"])
@pytest.mark.parametrize("written", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_the_rest_arrives_and_a_warning_names_the_part(
    relay: str, written: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    command = [sys.executable, str(tmp_path / "server.py"), written, json.dumps(RESULTS)]
    is_gateway = relay == "gateway"
    gateway = Gateway({"upstreams": {"up": {"command": command[0], "args": command[1:]}}})
    prefix, uri = ("up_", "x:up/1") if is_gateway else ("", "x:1")
    caplog.set_level(logging.WARNING, "mcp_runtime.relay.proxy.target")
    async with connect(gateway.app if is_gateway else App.proxy(command)) as client:
        assert [resource.name async for resource in client.iter_resources()] == ["a space", "good"]
        [content] = (await client.read_resource(uri)).contents
        assert content.text == "kept"
        embedded, binary, text = [message.content for message in (await client.get_prompt(f"{prefix}p")).messages]
        assert (embedded.resource.mime_type, binary.resource.mime_type) == ("text/plain", "application/octet-stream")
        assert text.text == "kept"
        with pytest.raises(RemoteJSONRPCError, match=r"cannot be sent: messages\[0\]: image: not base64"):
            await client.get_prompt(f"{prefix}bad")
    for part in ("resources[0]", "resources[1]", "contents[0]: blob: not base64", "contents[2]", "messages[1]: image"):
        assert part in caplog.text, part
