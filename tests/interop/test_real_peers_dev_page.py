"""A view with the official app of the extension, in the page of `mcp-generated dev`, in Chromium."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.browsers import DEADLINE, chromium
from support.cli.commands import command_line, listening
from support.peers import node_peer
from support.processes import free_port

pytestmark = pytest.mark.long

PACKAGE = "@modelcontextprotocol/ext-apps"
PROGRAM = '''
from mcp_generated import App

app = App("charts")


@app.tool(view="chart.html")
def total(points: list[int]) -> str:
    """Add the points."""
    return f"{sum(points)} in total"
'''
VIEW = """<ul></ul><script type="module">BUNDLE
const note = (text) => document.querySelector("ul").appendChild(document.createElement("li")).append(text);
const app = new OfficialApp({name: "chart", version: "1"}, {});
app.ontoolinput = ({arguments: given}) => note("input " + JSON.stringify(given));
app.ontoolresult = async ({content}) => {
  note("result " + content[0].text);
  const called = await app.callServerTool({name: "total", arguments: {points: [20, 22]}});
  note("called " + called.content[0].text);
  note("theme " + app.getHostContext().theme);
  await app.sendLog({level: "info", data: "shown"});
};
await app.connect();
</script>"""


def test_the_official_app_talks_to_the_page(tmp_path: Path) -> None:
    folder = node_peer(f"{PACKAGE}@2.0.4") / "node_modules" / PACKAGE
    bundle = (folder / "dist" / "src" / "app-with-deps.js").read_text(encoding="utf-8")
    [name] = re.findall(r"export *\{[^}]*?([\w$]+) as App\b", bundle)
    view = VIEW.replace("BUNDLE", bundle.replace("</script", r"<\/script") + f"\nconst OfficialApp = {name};")
    (tmp_path / "chart.html").write_text(view, encoding="utf-8")
    (tmp_path / "server.py").write_text(PROGRAM, encoding="utf-8")
    port = free_port()
    command = command_line("dev", tmp_path / "server.py", "--port", str(port), "--no-inspector")
    with chromium() as browser, listening(command, port):
        from selenium.webdriver.support.ui import WebDriverWait

        browser.get(f"http://127.0.0.1:{port}/dev")
        waiting = WebDriverWait(browser, DEADLINE)
        waiting.until(lambda shown: shown.find_elements("css selector", "#tools button"))[0].click()
        browser.find_element("css selector", "#form [name=points]").send_keys("[1, 2]")
        browser.find_element("css selector", "#form > button").click()
        frame = waiting.until(lambda shown: shown.find_elements("css selector", "#view iframe"))[0]
        waiting.until(lambda shown: shown.find_elements("css selector", "#log li"))
        assert browser.find_element("css selector", "#log li").text == "info: shown"
        browser.switch_to.frame(frame)
        notes = [item.text for item in browser.find_elements("css selector", "li")]
        assert notes == ['input {"points":[1,2]}', "result 3 in total", "called 42 in total", "theme light"]
