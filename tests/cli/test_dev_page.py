"""The page of `mcp-generated dev` in Chromium: forms, results, and views over the messages of MCP Apps."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.browsers import DEADLINE, Browser, chromium
from support.cli.commands import command_line, listening, mcp_codegen
from support.processes import free_port

from mcp_generated import REVISIONS
from mcp_products.tooling.dev_page import settings_with_page

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM for a process")

EVIL = "<img src=x onerror=document.title='evil'>"
APP = f'''
from typing import Literal

from mcp_generated import App, Image

app = App("charts")


@app.tool(view="total.html", description={EVIL!r})
def total(points: list[int], scale: float = 1.0, unit: Literal["m", "km"] = "m", label: str | None = None) -> str:
    return f"{{label}} {{sum(points) * scale}}{{unit}}"


@app.tool(meta={{"ui": {{"visibility": ["model"]}}}})
def hidden(sure: bool) -> str:
    """Answer models only."""
    return {EVIL!r} if sure else "no"


@app.tool()
def dot() -> Image:
    """Draw a dot."""
    return Image(data=b"GIF89a", format="gif")
'''
# What the page gives it, and what the sandbox and the policies leave of what a view tries.
VIEW = """<!doctype html><button>Open</button><ul></ul><script>
let last = 0;
const waiting = new Map();
const note = (text) => document.querySelector("ul").appendChild(document.createElement("li")).append(text);
const send = (message) => parent.postMessage({jsonrpc: "2.0", ...message}, "*");
const ask = (method, params = {}) => new Promise((resolve) => {
  waiting.set(++last, resolve);
  send({id: last, method, params});
});
const tried = async (name, what) => {
  try { await what(); note(`${name}: allowed`); } catch (error) { note(`${name}: refused`); }
};
addEventListener("message", async ({data}) => {
  if (waiting.has(data.id)) waiting.get(data.id)(data);
  if (data.method === "ui/notifications/tool-input") note("input " + JSON.stringify(data.params.arguments));
  if (data.method !== "ui/notifications/tool-result") return;
  note("result " + data.params.content[0].text);
  const called = await ask("tools/call", {name: "total", arguments: {points: [7], label: "again"}});
  note("called " + called.result.content[0].text);
  note("hidden " + (await ask("tools/call", {name: "hidden", arguments: {sure: true}})).error.code);
  note("unknown " + (await ask("acme/own")).error.code);
  note("link " + (await ask("ui/open-link", {url: "javascript:alert(1)"})).error.code);
  send({method: "notifications/message", params: {level: "info", data: "<b>logged</b>"}});
  send({method: "ui/notifications/size-changed", params: {height: 123}});
  await tried("page", () => parent.document.title);
  await tried("storage", () => localStorage.length);
  await tried("network", () => fetch("ENDPOINT", {method: "POST", body: "{}"}));
  note("done");
});
document.querySelector("button").onclick = async () => {
  note("declined " + (await ask("ui/open-link", {url: "https://example.org/<b>"})).result.isError);
};
(async () => {
  const own = {protocolVersion: "2026-01-26", appInfo: {name: "v", version: "1"}, appCapabilities: {}};
  const {result} = await ask("ui/initialize", own);
  const {hostCapabilities, hostContext} = result;
  note(`host ${result.protocolVersion} ${Object.keys(hostCapabilities)} ${hostContext.toolInfo.tool.name}`);
  send({method: "ui/notifications/initialized"});
})();
</script>"""
SERVER = f"""
from mcp_generated.PACKAGE import Server, types as t

EVIL = {EVIL!r}


class Hostile(Server):
    async def list_tools(self, ctx, params):
        field = {{"type": "string", "description": EVIL, "enum": [EVIL]}}
        schema = {{"type": "object", "properties": {{EVIL: field}}, "required": [EVIL, "__proto__"]}}
        return t.ListToolsResult(tools=[t.Tool(name=EVIL, description=EVIL, input_schema=schema)])

    async def call_tool(self, ctx, params):
        return t.CallToolResult(content=[t.TextContent(text=params.name + repr(params.arguments))])


    def run(self, transport, **settings):
        super().run(transport, revisions=["REVISION"], **settings)


server = Hostile(name="hostile", version="1")
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@contextmanager
def developed(folder: Path, source: str) -> Iterator[str]:
    """The address of the page of `dev` with a program."""
    port = free_port()
    (folder / "server.py").write_text(source)
    (folder / "total.html").write_text(VIEW.replace("ENDPOINT", f"http://127.0.0.1:{port}/mcp"))
    command = command_line("dev", folder / "server.py", "--port", str(port), "--no-inspector")
    with listening(command, port, {"PYTHONDONTWRITEBYTECODE": "1"}):
        yield f"http://127.0.0.1:{port}/dev"


def until(browser: Browser, condition: Callable[[Browser], Any]) -> Any:
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, DEADLINE).until(condition)


def texts(browser: Browser, selector: str) -> list[str]:
    return [found.text for found in browser.find_elements("css selector", selector)]


def fill(browser: Browser, name: str, text: str) -> None:
    browser.find_element("css selector", f"#form [name={name}]").send_keys(text)


def choose(browser: Browser, address: str, name: str) -> None:
    browser.get(address)
    until(browser, lambda shown: name in texts(shown, "#tools button"))
    next(found for found in browser.find_elements("css selector", "#tools button") if found.text == name).click()


def call(browser: Browser) -> list[str]:
    browser.find_element("css selector", "#form > button").click()
    return until(browser, lambda shown: texts(shown, "#result pre, #result img"))  # type: ignore[no-any-return]


@pytest.mark.long
def test_a_form_calls_a_tool_and_its_view_shows_the_result_and_calls_back(tmp_path: Path, browser: Browser) -> None:
    with developed(tmp_path, APP) as address:
        choose(browser, address, "total")
        assert texts(browser, "#form label > span") == ["points", "scale", "unit", "label"]
        assert texts(browser, "#form .required") == ["points"]
        assert texts(browser, "#description") == [EVIL]
        fill(browser, "points", "[1, 2")
        assert call(browser)[0].startswith("points is not JSON: ")
        fill(browser, "points", ", 3]")
        fill(browser, "scale", "2.5")
        fill(browser, "unit", "km")
        fill(browser, "label", "sum")
        assert call(browser)[0] == "sum 15.0km"
        until(browser, lambda shown: texts(shown, "#view iframe") != [])
        frame = browser.find_element("css selector", "#view iframe")
        assert frame.get_attribute("sandbox") == "allow-scripts" and frame.get_attribute("srcdoc") in (None, "")
        browser.switch_to.frame(frame)
        until(browser, lambda shown: "done" in texts(shown, "li"))
        assert texts(browser, "li") == [
            "host 2026-01-26 openLinks,serverTools,logging total",
            'input {"points":[1,2,3],"scale":2.5,"unit":"km","label":"sum"}',
            "result sum 15.0km",
            "called again 7.0m",
            "hidden -32602",
            "unknown -32601",
            "link -32602",
            "page: refused",
            "storage: refused",
            "network: refused",
            "done",
        ]
        browser.find_element("css selector", "button").click()
        until(browser, has_alert).dismiss()
        until(browser, lambda shown: "declined true" in texts(shown, "li"))
        browser.switch_to.default_content()
        assert frame.size["height"] == 125
        assert texts(browser, "#log li") == ["info: <b>logged</b>"]
        assert browser.title == "mcp-generated dev"


def has_alert(browser: Browser) -> Any:
    from selenium.common.exceptions import NoAlertPresentException

    try:
        alert = browser.switch_to.alert
    except NoAlertPresentException:
        return None
    assert alert.text == "The view asks to open this link:\n\nhttps://example.org/<b>"
    return alert


@pytest.mark.long
def test_results_and_errors_of_tools_stay_text(tmp_path: Path, browser: Browser) -> None:
    with developed(tmp_path, APP) as address:
        choose(browser, address, "hidden")
        fill(browser, "sure", "true")
        assert call(browser)[0] == EVIL
        choose(browser, address, "total")
        fill(browser, "points", '["<b>"]')
        assert "invalid arguments" in call(browser)[0]
        assert texts(browser, "#result .failed")
        choose(browser, address, "dot")
        call(browser)
        assert (
            browser.find_element("css selector", "#result img")
            .get_attribute("src")
            .startswith("data:image/gif;base64,")
        )
        assert browser.title == "mcp-generated dev"


@pytest.mark.long
@pytest.mark.parametrize("version", REVISIONS)
def test_names_of_a_hostile_server_stay_text_with_and_without_sessions(
    tmp_path: Path, browser: Browser, version: str
) -> None:
    source = SERVER.replace("PACKAGE", f"v{version.replace('-', '_')}").replace("REVISION", version)
    with developed(tmp_path, source) as address:
        choose(browser, address, EVIL)
        shown = ("#name", "#description", "#form label > span", "#form small", "#form option")
        assert [texts(browser, selector) for selector in shown] == [[EVIL]] * 5
        assert call(browser)[0] == EVIL + repr({EVIL: EVIL})
        assert browser.find_elements("css selector", "main img, nav img") == []
        assert browser.title == "mcp-generated dev"


@pytest.mark.long
def test_only_browsers_of_this_machine_get_the_page(tmp_path: Path) -> None:
    with developed(tmp_path, APP) as address:
        for path in ("", "/view"):
            for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
                with pytest.raises(urllib.error.HTTPError, match="403"):
                    urllib.request.urlopen(urllib.request.Request(address + path, headers=headers))
        with urllib.request.urlopen(address) as answer:
            policy = answer.headers["content-security-policy"]
            assert (
                "'unsafe-inline'" not in policy
                and "default-src 'none'" in policy
                and "frame-ancestors 'none'" in policy
            )
        with urllib.request.urlopen(f"{address}/view") as answer:
            assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts; default-src 'none'; ")


@pytest.mark.long
def test_run_serves_no_page(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "server.py").write_text("from mcp_generated import App\napp = App('plain')\n")
    with listening(command_line("run", tmp_path / "server.py", "--http", "--port", str(port)), port):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/dev")


async def test_the_endpoint_is_written_into_the_page_as_text() -> None:
    page, view = settings_with_page(object(), '/mcp"><script>')["routes"]
    assert (page.path, view.path) == ("/dev", "/dev/view")
    request = SimpleNamespace(client=SimpleNamespace(host="127.0.0.1"), headers={"host": "localhost:8000"})
    assert b'<body data-endpoint="/mcp&quot;&gt;&lt;script&gt;">' in (await page.endpoint(request)).body
    request.client.host = "192.0.2.1"
    assert (await page.endpoint(request)).status_code == 403


def test_the_page_needs_its_path(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text("")
    done = mcp_codegen("dev", "server.py", "--path", "/dev", folder=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--path /dev" in done.stderr
