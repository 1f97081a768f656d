"""The parts of servers and OAuth clients that programs use by themselves, by the names of both forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_packages_by_name import FORMS, run, written

COMPONENTS = """
import asyncio, logging
from mcp.server.{package} import Context
from mcp.server.{package}.exceptions import ToolError
from mcp.server.{package}.prompts.base import AssistantMessage, Prompt, UserMessage
from mcp.server.{package}.prompts.manager import PromptManager
from mcp.server.{package}.resources import FileResource, FunctionResource, ResourceManager, ResourceTemplate
from mcp.server.{package}.resources import TextResource
from mcp.server.{package}.tools import ToolManager
from mcp.server.{package}.utilities.context_injection import find_context_parameter

logging.basicConfig()

def seats(show: str, rows: list[int], ctx: Context | None = None) -> dict[str, int]:
    "Count the seats."
    return {{show: sum(rows)}}

def greet(name: str, loud: bool = False):
    return [AssistantMessage("Hello"), name.upper() if loud else name]

async def main():
    assert (find_context_parameter(seats), find_context_parameter(greet)) == ("ctx", None)
    tools = ToolManager()
    tool = tools.add_tool(seats)
    assert tool.description == "Count the seats." and "ctx" not in tool.parameters["properties"]
    assert tools.add_tool(seats) is tool and tools.list_tools() == [tool]
    assert await tools.call_tool("seats", {{"show": "a", "rows": "[1, 2]"}}, None) == {{"a": 3}}
    content, structured = await tool.run({{"show": "a", "rows": [4]}}, None, convert_result=True)
    assert (structured, content[0].type) == ({{"a": 4}}, "text")
    for name, words in (("none", "Unknown tool: none"), ("seats", "Error executing tool seats")):
        try:
            await tools.call_tool(name, {{}}, None)
            raise AssertionError(name)
        except ToolError as error:
            assert words in str(error)

    prompts = PromptManager()
    prompts.add_prompt(Prompt.from_function(greet))
    messages = await prompts.render_prompt("greet", {{"name": "ann", "loud": "true"}}, None)
    assert messages == [AssistantMessage("Hello"), UserMessage("ANN")] and messages[1].content.text == "ANN"
    try:
        await prompts.render_prompt("greet", {{}}, None)
        raise AssertionError("rendered")
    except ValueError as error:
        assert "Missing required arguments" in str(error)

    resources = ResourceManager()
    text = resources.add_resource(TextResource(uri="shop://hours", text="9 to 5"))
    assert await text.read() == "9 to 5" and await resources.get_resource("shop://hours", None) is text
    template = resources.add_template(seats, "shows://{{show}}/{{rows}}", name="shows", meta={{"a": 1}})
    assert template.matches("shows://x") is None
    made = await template.create_resource("shows://x/1", {{"show": "x", "rows": [1]}}, None)
    assert isinstance(made, FunctionResource) and made.meta == {{"a": 1}} and '"x": 1' in await made.read()
    nameless = lambda x: x
    for wrong, words in ((FileResource, {{"uri": "file:///x", "path": "relative"}}),
                         (ResourceTemplate.from_function, {{"fn": nameless, "uri_template": "a://{{x}}"}})):
        try:
            wrong(**words)
            raise AssertionError("made")
        except ValueError as error:
            assert "absolute" in str(error) or "lambda" in str(error)
    try:
        await resources.get_resource("shop://none", None)
        raise AssertionError("found")
    except Exception as error:
        assert "Unknown resource: shop://none" in str(error)
    print("done")

asyncio.run(main())
"""
OAUTH = """
import asyncio
{http}
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, PKCEParameters
from mcp.client.auth import utils
from mcp.server import validation
from mcp.shared.auth import OAuthClientMetadata, OAuthMetadata, ProtectedResourceMetadata
from mcp.types import ClientCapabilities, SamplingMessage, TextContent, Tool, ToolResultContent, ToolUseContent

SERVER = "https://shop.example/v1/mcp"
CLIENT = OAuthClientMetadata(redirect_uris=["http://localhost:1/back"], scope="read", client_uri="")
ISSUER = OAuthMetadata(issuer="https://login.example", authorization_endpoint="https://login.example/a",
    token_endpoint="https://login.example/t", scopes_supported=["all"], client_id_metadata_document_supported=True)

def refused(kind, words, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)

async def main():
    one, two = PKCEParameters.generate(), PKCEParameters.generate()
    assert one.code_verifier != two.code_verifier and 43 <= len(one.code_challenge) <= 128
    header = 'Bearer scope="a b", resource_metadata="https://m.example"'
    challenge = http.Response(401, headers={{"WWW-Authenticate": header}})
    assert utils.extract_scope_from_www_auth(challenge) == "a b"
    found = utils.extract_resource_metadata_from_www_auth(challenge)
    urls = utils.build_protected_resource_metadata_discovery_urls(found, SERVER)
    known = "https://shop.example/.well-known/oauth-protected-resource"
    assert urls == ["https://m.example", known + "/v1/mcp", known]
    assert len(utils.build_oauth_authorization_server_metadata_discovery_urls("https://login.example/x", SERVER)) == 3
    fields = {{"resource": SERVER, "authorization_servers": ["https://login.example"], "scopes_supported": ["r"]}}
    listed = ProtectedResourceMetadata(**fields)
    scopes = utils.get_client_metadata_scopes
    assert [scopes("a", listed, ISSUER), scopes(None, listed, ISSUER)] == ["a", "r"]
    assert [scopes(None, None, ISSUER), scopes(None, None)] == ["all", None]
    request = utils.create_client_registration_request(None, CLIENT, "https://login.example")
    assert isinstance(request, http.Request) and str(request.url) == "https://login.example/register"
    answered = {{**CLIENT.model_dump(mode="json"), "client_id": "c", "issuer": "https://evil.example"}}
    client = await utils.handle_registration_response(http.Response(201, json=answered))
    assert (client.client_id, client.issuer) == ("c", None)
    assert utils.credentials_match_issuer(client, "https://any.example", None)
    empty = {{"client_id": "c", "token_endpoint_auth_method": "", "grant_types": None}}
    client = await utils.handle_registration_response(http.Response(201, json=empty))
    assert (client.redirect_uris, client.token_endpoint_auth_method) == (None, None) and client.grant_types
    try:
        await utils.handle_registration_response(http.Response(400, text="no", request=request))
        raise AssertionError("registered")
    except OAuthRegistrationError as error:
        assert "400" in str(error)
    assert await utils.handle_auth_metadata_response(http.Response(500)) == (False, None)
    assert await utils.handle_auth_metadata_response(http.Response(404)) == (True, None)
    assert utils.should_use_client_metadata_url(ISSUER, "https://a.example/c")
    assert not utils.is_valid_client_metadata_url("http://a.example/c")
    refused(OAuthFlowError, "issuer mismatch", utils.validate_metadata_issuer, ISSUER, "https://other.example")

    use = SamplingMessage(role="assistant", content=[ToolUseContent(type="tool_use", id="1", name="t", input={{}})])
    result = ToolResultContent(type="tool_result", content=[], **{{"{id}": "1"}})
    validation.validate_tool_use_result_messages([use, SamplingMessage(role="user", content=[result])])
    other = SamplingMessage(role="user", content=[result, TextContent(type="text", text="x")])
    alone = SamplingMessage(role="user", content=[result])
    refused(ValueError, "only tool_result", validation.validate_tool_use_result_messages, [use, other])
    refused(ValueError, "previous message", validation.validate_tool_use_result_messages, [alone])
    refused(Exception, "sampling tools", validation.validate_sampling_tools, ClientCapabilities(), [], None)
    print("done")

asyncio.run(main())
"""


def values(form: str) -> dict[str, str]:
    if form == "v1":
        own = "try:\n    import httpx as http\nexcept ImportError:\n    import httpx2 as http"
        return {"package": "fastmcp", "http": own, "id": "toolUseId"}
    return {"package": "mcpserver", "http": "import httpx2 as http", "id": "tool_use_id"}


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("program", [COMPONENTS, OAUTH], ids=["components", "oauth"])
def test_parts_do_what_the_originals_do(program: str, form: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program.format(**values(form)))
    done = run(tmp_path, written(tmp_path, form), "program.py")
    assert done.stdout.strip() == "done", done.stdout + done.stderr


REQUESTS = """
from mcp.server.lowlevel.func_inspection import create_call_wrapper
from mcp.types import ListToolsRequest

def plain(): return "plain"
def defaulted(request: ListToolsRequest = None): return "default"
def given(request: ListToolsRequest): return request
def only_keyword(*, request: ListToolsRequest): return request
def positional(request: ListToolsRequest, /): return request

asked = ListToolsRequest(method="tools/list")
for function in (given, only_keyword, positional):
    assert create_call_wrapper(function, ListToolsRequest)(asked) is asked, function
for function, expected in ((plain, "plain"), (defaulted, "default")):
    assert create_call_wrapper(function, ListToolsRequest)(asked) == expected, function
print("done")
"""


@pytest.mark.long
def test_a_wrapper_passes_the_request_to_functions_that_take_it(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(REQUESTS)
    done = run(tmp_path, written(tmp_path, "v1"), "program.py")
    assert done.stdout.strip() == "done", done.stdout + done.stderr
