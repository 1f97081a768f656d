"""Each revision is that revision: what a changelog added is there from then on, and is unknown or refused before."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from support.project import package

from mcp_generated import REVISIONS
from mcp_runtime.protocol.models import validator

ORDER = list(REVISIONS)
TEXT = {"type": "text", "text": "x"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
USE = {"type": "tool_use", "id": "1", "name": "x", "input": {}}

# (type, property) and the revisions that have it; what the changelogs say was added, and what was removed.
PROPERTIES = [
    ("Tool", "annotations", "2025-03-26", None),
    ("ServerCapabilities", "completions", "2025-03-26", None),
    ("ProgressNotificationParams", "message", "2025-03-26", None),
    ("Tool", "output_schema", "2025-06-18", None),
    ("Tool", "title", "2025-06-18", None),
    ("Tool", "meta", "2025-06-18", None),
    ("CallToolResult", "structured_content", "2025-06-18", None),
    ("CompleteRequestParams", "context", "2025-06-18", None),
    ("ClientCapabilities", "elicitation", "2025-06-18", None),
    ("Annotations", "last_modified", "2025-06-18", None),
    ("Tool", "icons", "2025-11-25", None),
    ("Implementation", "website_url", "2025-11-25", None),
    ("CreateMessageRequestParams", "tools", "2025-11-25", None),
    ("CallToolRequestParams", "task", "2025-11-25", "2025-11-25"),
    ("Tool", "execution", "2025-11-25", "2025-11-25"),
    ("ListToolsResult", "ttl_ms", "2026-07-28", None),
    ("CallToolResult", "result_type", "2026-07-28", None),
    ("RequestMetaObject", "protocol_version", "2026-07-28", None),
    ("CallToolRequestParams", "input_responses", "2026-07-28", None),
    ("ClientCapabilities", "extensions", "2026-07-28", None),
]
TYPES = [
    ("AudioContent", "2025-03-26", None),
    ("ToolAnnotations", "2025-03-26", None),
    ("JSONRPCBatchRequest", "2025-03-26", "2025-03-26"),
    ("ResourceLink", "2025-06-18", None),
    ("ElicitRequest", "2025-06-18", None),
    ("Icon", "2025-11-25", None),
    ("ToolUseContent", "2025-11-25", None),
    ("Task", "2025-11-25", "2025-11-25"),
    ("URLElicitationRequiredError", "2025-11-25", "2025-11-25"),
    ("InitializeRequest", "2024-11-05", "2025-11-25"),
    ("SubscribeRequest", "2024-11-05", "2025-11-25"),
    ("DiscoverRequest", "2026-07-28", None),
    ("InputRequiredResult", "2026-07-28", None),
    ("SubscriptionsListenRequest", "2026-07-28", None),
    ("HeaderMismatchError", "2026-07-28", None),
]


def has(revision: str, first: str, last: str | None) -> bool:
    return ORDER.index(first) <= ORDER.index(revision) <= ORDER.index(last or ORDER[-1])


@pytest.mark.parametrize(("type_", "attribute", "first", "last"), PROPERTIES, ids=lambda value: str(value))
def test_a_property_is_known_only_while_its_revision_has_it(
    revision: str, type_: str, attribute: str, first: str, last: str | None
) -> None:
    model: type[BaseModel] | None = getattr(package(revision, "types"), type_, None)
    assert (model is not None and attribute in model.model_fields) is has(revision, first, last)


@pytest.mark.parametrize(("type_", "first", "last"), TYPES, ids=lambda value: str(value))
def test_a_type_exists_only_while_its_revision_has_it(revision: str, type_: str, first: str, last: str | None) -> None:
    assert hasattr(package(revision, "types"), type_) is has(revision, first, last)


@pytest.mark.parametrize(
    ("content", "first"),
    [(TEXT, "2024-11-05"), (AUDIO, "2025-03-26"), (LINK, "2025-06-18")],
    ids=["text", "audio", "link"],
)
def test_a_content_kind_is_refused_before_its_revision(revision: str, content: dict[str, Any], first: str) -> None:
    read = validator(package(revision, "types").CallToolResult)
    result = {"content": [content], "resultType": "complete"}
    if has(revision, first, None):
        assert type(read(result).content[0]).__name__ == {"text": "TextContent", "audio": "AudioContent"}.get(
            content["type"], "ResourceLink"
        )
    else:
        with pytest.raises(ValidationError):
            read(result)


def test_tools_in_sampling_are_refused_before_2025_11_25(revision: str) -> None:
    read = validator(package(revision, "types").SamplingMessage)
    if has(revision, "2025-11-25", None):
        assert read({"role": "assistant", "content": [USE]}).content[0].name == "x"
    else:
        with pytest.raises(ValidationError):
            read({"role": "assistant", "content": USE})


def test_an_output_schema_is_unknown_to_2024_11_05_but_not_lost() -> None:
    read = validator(package("2024-11-05", "types").Tool)
    wire = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}
    tool = read(wire)
    assert not hasattr(type(tool), "output_schema") and "output_schema" not in type(tool).model_fields
    assert tool.model_dump() == wire


def test_2026_07_28_requires_what_the_older_ones_do_not_know(revision: str) -> None:
    read = validator(package(revision, "types").ListToolsResult)
    if revision == "2026-07-28":
        with pytest.raises(ValidationError, match="ttlMs"):
            read({"tools": [], "resultType": "complete"})
    else:
        assert read({"tools": []}).tools == []


@pytest.mark.parametrize(
    ("fields", "fields_set"),
    [
        ({}, ()),
        ({"ttl_ms": 5}, ("ttl_ms",)),
        ({"ttlMs": 5}, ("ttl_ms",)),
        ({"resultType": "complete", "cache_scope": "private"}, ("result_type", "cache_scope")),
    ],
    ids=str,
)
def test_what_2026_07_28_fills_in_by_itself_was_not_said(fields: dict[str, Any], fields_set: tuple[str, ...]) -> None:
    result = package("2026-07-28", "types").ListToolsResult(tools=[], **fields)
    assert result.model_fields_set == {"tools", *fields_set}
    assert {"resultType", "ttlMs", "cacheScope"} <= result.model_dump().keys()
