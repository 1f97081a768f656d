"""A value that matches no branch of a union: the error has what the branch that was meant needs, not the first one."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from support.endpoints import ALL_REVISIONS, server_of, wire_to

from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.protocol.models import format_validation_error, validator

FORM = {"message": "x", "requestedSchema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize(
    ("shape", "value", "text"),
    [
        (t.ElicitRequestParams, {**FORM, "mode": "urll"}, "mode: 'urll' is not one of 'form', 'url'"),
        (t.ElicitRequestParams, {"mode": 7, "message": "x"}, "mode: 7 is not one of 'form', 'url'"),
        (
            t.ElicitRequestParams,
            {"mode": "url", "message": "x", "url": "https://example.org"},
            "ElicitRequestURLParams.elicitationId: Field required",
        ),
        (t.ElicitRequestParams, {"message": "x"}, "ElicitRequestFormParams.requestedSchema: Field required"),
        (t.EmbeddedResource, {"type": "resource", "resource": {"uri": "a:b"}}, "TextResourceContents.text: Field req"),
        (
            t.RequestedSchema,
            {"type": "object", "properties": {"a": {"type": "strin"}}},
            "properties.a.type: 'strin' is not one of 'string', 'number', 'integer', 'boolean', 'array'",
        ),
        (
            t.RequestedSchema,
            {"type": "object", "properties": {"a": {"type": "number", "title": 1}}},
            "NumberSchema.title",
        ),
        (
            t.SamplingMessage,
            {"role": "user", "content": {"type": "imag"}},
            "content: Input tag 'imag' found using 'type' does not match any of the expected tags: 'text', 'image'",
        ),
        (t.SamplingMessage, {"role": "user", "content": [{"type": "text"}]}, "content.0.text.text: Field required"),
        (t.CancelledNotificationParams, {"requestId": 1.5}, "requestId.str: Input should be a valid string"),
        (t.ElicitRequestParams, {**FORM, "mode": "u" * 500}, f"mode: '{'u' * 59} is not one of"),
    ],
)
def test_the_error_is_that_of_the_branch_that_was_meant(shape: Any, value: Any, text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        validator(shape)(value)
    assert text in format_validation_error(caught.value)


def test_errors_outside_of_the_union_are_counted() -> None:
    value = {"method": "elicitation/create", "params": {**FORM, "mode": "urll"}}
    with pytest.raises(ValidationError) as caught:
        validator(t.ElicitRequest)(value)  # Without `jsonrpc` and `id`.
    assert format_validation_error(caught.value) == "params.mode: 'urll' is not one of 'form', 'url' (and 2 more)"


async def test_a_server_sends_it() -> None:
    (rev,) = [rev for rev in ALL_REVISIONS if rev.id == "2025-11-25"]

    async def complete(ctx: Any, params: Any) -> Any:
        raise AssertionError(params)

    async with wire_to(server_of(rev, complete=complete), opened=rev) as wire:
        params = {"ref": {"type": "ref/tool", "name": "a"}, "argument": {"name": "a", "value": ""}}
        answer = await wire.request(rev.request(1, "completion/complete", params))
    assert "'ref/tool'" in answer["error"]["message"] and "'ref/prompt', 'ref/resource'" in answer["error"]["message"]
