"""A task of a user of tokens goes in; nobody else finds, answers or cancels it, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.auth.resource_server import Authority, endpoint, others
from support.endpoints import STATELESS, Rev, among
from support.servers.jobs import Seen, jobs
from support.task_clients import KNOWN

from mcp_runtime.auth.resource_server.protection import ResourceServer


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    found = Authority()
    yield found
    found.close()


@among(STATELESS)
async def test_a_task_is_found_answered_and_cancelled_by_its_user_alone(rev: Rev, issuer: Authority) -> None:
    seen = Seen()
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), jobs(seen).server) as at:
        meta = {**rev.meta(), "io.modelcontextprotocol/clientCapabilities": KNOWN}

        async def ask(token: str | None, method: str, named: str, **params: Any) -> tuple[int, dict[str, Any]]:
            said = rev.request(1, method, {**params, "_meta": meta})
            answer = await at.post(said, token, **{"mcp-name": named})
            return answer.status_code, json.loads(answer.content) if answer.content else {}

        _, made = await ask(issuer.token(at.url), "tools/call", "wait", name="wait", arguments={})
        id: str = made["result"]["taskId"]
        asked: dict[str, dict[str, Any]] = {"tasks/get": {}, "tasks/update": {"inputResponses": {}}, "tasks/cancel": {}}
        for who, (token, _) in others(issuer, at.url).items():
            if "new token" in who:
                assert (await ask(token, "tasks/get", id, taskId=id))[1]["result"]["status"] == "working"
                continue
            for method, more in asked.items():
                status, said = await ask(token, method, id, taskId=id, **more)
                assert status == (401 if token is None or "ended" in who else 400), who
                assert status == 401 or said["error"]["code"] == -32602, who
        assert not seen.ended.is_set()
        assert (await ask(issuer.token(at.url), "tasks/cancel", id, taskId=id))[0] == 200
        await seen.ended.wait()
