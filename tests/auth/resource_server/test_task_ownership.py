"""A task of a user of tokens goes in; nobody else finds, answers or cancels it, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.auth.resource_server import Authority, endpoint, others
from support.endpoints import STATELESS, Rev, among
from support.servers.jobs import Seen, jobs
from support.task_clients import CAPABILITIES

from mcp_products.auth.resource_server.protection import ResourceServer


@pytest.fixture(scope="module")
def issuer() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.close()


@among(STATELESS)
async def test_a_task_is_found_answered_and_cancelled_by_its_user_alone(rev: Rev, issuer: Authority) -> None:
    seen = Seen()
    async with endpoint(rev, lambda url: ResourceServer(url, [issuer.name]), jobs(seen).server) as at:
        meta = {**rev.meta(), "io.modelcontextprotocol/clientCapabilities": CAPABILITIES}

        async def send(token: str | None, method: str, named: str, **params: Any) -> tuple[int, dict[str, Any]]:
            message = rev.request(1, method, {**params, "_meta": meta})
            answer = await at.post(message, token, **{"mcp-name": named})
            return answer.status_code, json.loads(answer.content) if answer.content else {}

        _, created = await send(issuer.token(at.url), "tools/call", "wait", name="wait", arguments={})
        id: str = created["result"]["taskId"]
        requests: dict[str, dict[str, Any]] = {
            "tasks/get": {},
            "tasks/update": {"inputResponses": {}},
            "tasks/cancel": {},
        }
        for who, (token, _) in others(issuer, at.url).items():
            if "new token" in who:
                assert (await send(token, "tasks/get", id, taskId=id))[1]["result"]["status"] == "working"
                continue
            for method, more in requests.items():
                status, response = await send(token, method, id, taskId=id, **more)
                assert status == (401 if token is None or "ended" in who else 400), who
                assert status == 401 or response["error"]["code"] == -32602, who
        assert not seen.ended.is_set()
        assert (await send(issuer.token(at.url), "tasks/cancel", id, taskId=id))[0] == 200
        await seen.ended.wait()
