"""Servers that hosts have refused, each as the least data with its fault: the public report, the hosts, the rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from mcp_products.lint import Snapshot

Json = dict[str, Any]


class Incident(NamedTuple):
    """One report: where it is, the hosts of which one at least has to be named, the rule, and the server."""

    source: str
    hosts: tuple[str, ...]
    rule: str
    snapshot: Snapshot


def tool(name: str = "search", properties: Json | None = None, **more: Any) -> Json:
    """A tool without a fault, and what is added to it."""
    schema = {"type": "object", "properties": properties if properties is not None else {"text": text()}}
    annotations = {"readOnlyHint": True}
    return {
        "name": name,
        "description": f"Find what {name} names.",
        "inputSchema": schema,
        "annotations": annotations,
        **more,
    }


def text(**more: Any) -> Json:
    return {"type": "string", "description": "What to look for.", **more}


def with_root(name: str = "search", **more: Any) -> Json:
    """A tool whose input schema has these keywords at the root."""
    plain = tool(name)
    return {**plain, "inputSchema": {**plain["inputSchema"], **more}}


def with_schema(schema: Json) -> Json:
    return {**tool(), "inputSchema": schema}


def tools(*items: Json, **more: Any) -> Snapshot:
    info = {"name": "shop", "version": "1.0.0"}
    return Snapshot(name="shop", named=True, info=info, revision="2025-11-25", tools=items, **more)


def output(**schema: Any) -> Json:
    return {**tool(), "outputSchema": schema}


def entry(path: str, key: str = "mcpServers", **fields: Any) -> Snapshot:
    words = (fields["command"], *fields.get("args", ())) if "command" in fields else ()
    return Snapshot(
        name="shop", named=True, entry=fields, configuration=Path(path), servers_key=key, command=words,
        url=fields.get("url", ""),
    )  # fmt: skip


_ONE_OF: Final = [{"required": ["id"]}, {"required": ["name"]}]
_EMAIL: Final = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
_TREE: Final = {"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
_READ: Final[Json] = {"content": [{"type": "text", "text": "x"}]}
_PACKAGE: Final = {"registryType": "pypi", "identifier": "shop", "version": "1.0.0"}
_REGISTRY: Final[Json] = {
    "name": "io.github.somebody/shop",
    "description": "A shop.",
    "version": "1.0.0",
    "packages": [_PACKAGE],
}


def many(count: int) -> Snapshot:
    return tools(*(tool(f"find_{number}") for number in range(count)))


def named(name: str, server: str = "shop") -> Snapshot:
    snapshot = tools(tool(name))
    snapshot.name = server
    return snapshot


INCIDENTS: Final = [
    Incident(
        "kenn-io/kata PR #365",
        ("anthropic-api",),
        "schema-root-combinator",
        tools(*(with_root(f"t{n}", oneOf=_ONE_OF) for n in range(9))),
    ),
    Incident("opentokenz/mcpx #28", ("claude-code",), "schema-root-combinator", tools(with_root(oneOf=_ONE_OF))),
    Incident(
        "zereight/gitlab-mcp #550", ("kiro",), "schema-root-combinator", tools(*many(80).tools, with_root(allOf=[{}]))
    ),
    Incident(
        "makenotion/notion-mcp-server #341",
        ("anthropic-managed-agents",),
        "schema-root-combinator",
        tools(with_root(anyOf=_ONE_OF), lock={"tools.search": "before"}),
    ),
    Incident(
        "makenotion/notion-mcp-server #341",
        (),
        "definition-changed",
        tools(with_root(anyOf=_ONE_OF), lock={"tools.search": "before"}),
    ),
    Incident(
        "MoonshotAI/kimi-code #2661",
        ("moonshot-kimi",),
        "schema-type-beside-anyof",
        tools(with_root(anyOf=_ONE_OF)),
    ),
    Incident(
        "ChromeDevTools/chrome-devtools-mcp #1169",
        ("claude-code-plugin",),
        "name-composed-length",
        named("get_console_message", "chrome-devtools-mcp"),
    ),
    Incident(
        "awslabs/mcp #643",
        ("amazon-q-cli",),
        "name-composed-length",
        named("read_documentation_of_a_service", "awslabs.aws-documentation-mcp-server"),
    ),
    Incident("ComposioHQ/composio #2788", ("cursor",), "name-composed-length", named("a" * 59, "s")),
    Incident("awslabs/mcp #2395", ("librechat",), "name-composed-length", named("a" * 53, "aws-iac-mcp-server")),
    Incident("awslabs/mcp #3181", ("bedrock-converse",), "name-length", named("a" * 67)),
    Incident("openai/codex #8174", ("openai-api",), "name-characters", named("calendar.respondToEvent")),
    Incident("barryw/ImmichMCP #4", ("claude-desktop",), "name-characters", named("immich.albums.list")),
    Incident("webstudio-is/webstudio #5960", ("cursor",), "name-characters", named("meta.index")),
    Incident("modelcontextprotocol/modelcontextprotocol #1345", ("claude-code",), "name-characters", named("find all")),
    Incident("aws/aws-toolkit-jetbrains #5831", ("amazon-q-jetbrains",), "name-characters", named("查询")),
    Incident(
        "MoonshotAI/kimi-cli #2531", ("moonshot-kimi",), "name-first-character", named("21st_magic_component_builder")
    ),
    Incident("apify/apify-mcp-server #36", ("5ire",), "name-separator", named("apify--rag-web-browser")),
    Incident(
        "ComposioHQ/composio #3500",
        ("anthropic-api",),
        "schema-property-key",
        tools(tool(properties={"$top": text(), "@microsoft.graph.conflictBehavior": text()})),
    ),
    Incident(
        "ComposioHQ/composio #2330",
        ("anthropic-api",),
        "schema-property-key",
        tools(tool(properties={"a" * 68: text()})),
    ),
    Incident(
        "freee/freee-mcp #15", ("claude-code",), "schema-property-key", tools(tool(properties={"取引[]": text()}))
    ),
    Incident(
        "marianfoo/sap-mcp-servers #52",
        ("claude-desktop",),
        "schema-dialect",
        tools(output(**{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {}})),
    ),
    Incident(
        "kintone/mcp-server #547",
        ("claude-desktop",),
        "schema-invalid-2020-12",
        tools(tool(properties={"pair": {"type": "array", "items": [text(), text()]}})),
    ),
    Incident(
        "digitalocean-labs/mcp-digitalocean #265",
        ("openai-api",),
        "schema-array-items",
        tools(tool(properties={"ids": {"type": "array"}})),
    ),
    Incident(
        "agentscope-ai/ReMe #84",
        ("vscode-copilot",),
        "schema-array-items",
        tools(tool(properties={"of": {"type": "object", "properties": {"ids": {"type": "array"}}}})),
    ),
    Incident(
        "DaxianLee/cocos-mcp-server #14",
        ("windsurf",),
        "schema-array-items",
        tools(tool(properties={"value": {"anyOf": [{"type": "array"}, text()]}})),
    ),
    Incident(
        "github/github-mcp-server #1548",
        ("openai-api",),
        "schema-object-properties",
        tools(with_schema({"type": "object"})),
    ),
    Incident(
        "github/copilot-cli #2223",
        ("copilot-cli",),
        "schema-object-properties",
        tools(with_schema({"type": "object", "additionalProperties": False})),
    ),
    Incident(
        "zed-extensions/mcp-server-brave-search #12",
        ("gemini-api", "zed"),
        "schema-keyword",
        tools(tool(properties={"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}})),
    ),
    Incident(
        "microsoft/azure-devops-mcp #145",
        ("gemini-api",),
        "schema-enum-type",
        tools(tool(properties={"kind": {"type": "integer", "enum": [1, 2]}})),
    ),
    Incident(
        "sbroenne/mcp-server-excel #607",
        ("gemini-api",),
        "schema-enum-empty",
        tools(tool(properties={"kind": text(enum=["", "a"])})),
    ),
    Incident(
        "unclecode/crawl4ai #1311",
        ("gemini-api",),
        "schema-type-missing",
        tools(tool(properties={"value": {"description": "Anything."}})),
    ),
    Incident(
        "nanbingxyz/5ire #218",
        ("gemini-api",),
        "schema-type-list",
        tools(tool(properties={"value": {"type": ["string", "null"]}})),
    ),
    Incident(
        "gemini-cli-extensions/stitch #13",
        ("claude-code", "kiro", "cursor", "opencode"),
        "schema-ref-unresolved",
        tools(output(type="object", properties={"screen": {"$ref": "#/$defs/Screen"}})),
    ),
    Incident(
        "anthropics/claude-code #77106",
        ("claude-code",),
        "schema-ref-recursive",
        tools(output(type="object", properties={"tree": {"$ref": "#/$defs/Tree"}}, **{"$defs": {"Tree": _TREE}})),
    ),
    Incident(
        "MoonshotAI/kimi-cli #2061",
        ("moonshot-kimi",),
        "schema-ref-sibling",
        tools(
            with_schema(
                {
                    "type": "object",
                    "properties": {"a": {"$ref": "#/$defs/A", "description": "One."}},
                    "$defs": {"A": {"type": "string", "description": "Another."}},
                }
            )
        ),
    ),
    Incident(
        "Dokploy/mcp #45",
        ("openai-api",),
        "schema-pattern-lookaround",
        tools(tool(properties={"to": text(pattern=_EMAIL)})),
    ),
    Incident(
        "can1357/oh-my-pi #2784",
        ("openai-codex-cli",),
        "schema-pattern-lookaround",
        tools(tool(properties={"to": text(pattern="^(?!undefined$|null$)")})),
    ),
    Incident(
        "modelcontextprotocol/servers #799",
        ("openai-api", "azure-openai"),
        "description-length",
        tools(tool(description="word " * 556)),
    ),
    Incident(
        "anthropics/claude-code #41593", ("claude-code",), "description-length", tools(tool(description="word " * 1867))
    ),
    Incident("Snowflake-Labs/mcp #77", ("cursor",), "tool-count", many(81)),
    Incident("DaxianLee/cocos-mcp-server #11", ("windsurf", "antigravity"), "tool-count", many(157)),
    Incident("microsoft/copilot-intellij-feedback #1842", ("copilot-jetbrains",), "tool-count", many(245)),
    Incident(
        "mui/material-ui #46778",
        ("claude-code",),
        "result-size",
        tools(tool(), calls={"search": {"content": [{"type": "text", "text": "word " * 30_000}]}}),
    ),
    Incident(
        "robert7/remnote-mcp-server PR #7",
        ("claude-code", "typescript-sdk-clients"),
        "output-without-structured",
        tools(output(type="object", properties={"text": {"type": "string"}}), calls={"search": _READ}),
    ),
    Incident(
        "opentokenz/mcpx #28 (second)",
        ("typescript-sdk-clients",),
        "output-schema-type",
        tools(output(anyOf=[{"type": "object"}, {"type": "array"}])),
    ),
    Incident(
        "google/adk-go #1391",
        ("google-adk-go",),
        "result-content-kind",
        tools(
            tool(),
            calls={"search": {"content": [{"type": "resource", "resource": {"uri": "file:///a", "text": "body"}}]}},
        ),
    ),
    Incident(
        "sbroenne/mcp-server-excel #636",
        ("claude-desktop",),
        "stdout-noise",
        tools(tool(), noise=["[12:00] started\n"]),
    ),
    Incident(
        "run-llama/mcp-server-llamacloud #5",
        ("claude-desktop",),
        "stdout-noise",
        tools(tool(), noise=["Loading\n", "Ready\n"]),
    ),
    Incident("anthropics/claude-code #84136", ("claude-desktop",), "start-time", tools(tool(), start=61.5)),
    Incident(
        "tomaspavlin/rohlik-mcp #6",
        ("claude-desktop",),
        "command-path",
        entry("claude_desktop_config.json", command="npx", args=["-y", "shop"]),
    ),
    Incident(
        "cline/cline #902", ("cline",), "command-windows", entry("cline.json", command="npx", args=["-y", "shop"])
    ),
    Incident("wende/cicada #121", ("gemini-cli",), "config-place", entry(".gemini/mcp.json", command="/bin/sh")),
    Incident(
        "block/ai-rules PR #9",
        ("gemini-cli",),
        "config-key",
        entry("home/.gemini/settings.json", url="https://example.com/mcp"),
    ),
    Incident(
        "Doist/todoist-mcp #94",
        ("chatgpt-connector",),
        "connector-search-fetch",
        tools(tool("find"), url="https://example.com/mcp"),
    ),
    Incident(
        "HelpCode-ai/anythingmcp PR #612",
        ("registry",),
        "registry-description",
        Snapshot(registry={**_REGISTRY, "description": "d" * 158}),
    ),
    Incident(
        "sitbon/magg PR #17", ("registry",), "registry-ownership", Snapshot(registry=_REGISTRY, readme="# shop\n")
    ),
    Incident(
        "codefuturist/email-mcp #58",
        ("llama-cpp",),
        "schema-pattern-lookaround",
        tools(tool(properties={name: text(pattern=_EMAIL) for name in ("to", "cc", "bcc")})),
    ),
    Incident(
        "firecrawl/firecrawl #4512",
        ("llama-cpp",),
        "schema-bound-size",
        tools(tool(properties={"of": {"type": "object", "properties": {"text": text(maxLength=10_000)}}})),
    ),
    Incident(
        "soflyy/agent-connector-for-wp #111",
        ("cursor",),
        "oauth-redirect",
        tools(tool(), refused_redirects=["cursor://anysphere.cursor-mcp/oauth/callback"]),
    ),
]
