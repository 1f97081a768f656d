"""A server and a client without what Windows lacks: no poll, add_reader, killpg, waitid, fork or SIGKILL."""

from __future__ import annotations

import json
import re
import signal
from typing import Any

import pytest
from support.project import ROOT, SERVERS
from support.windows import emulated

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
FAULTY = str(SERVERS / "misbehaving_handlers.py")


def test_the_example_of_a_file_system_says_that_it_cannot_run_here() -> None:
    with emulated.start(str(ROOT / "examples/filesystem/server.py")) as server:
        output, errors = server.communicate(timeout=emulated.DEADLINE)
    assert (server.returncode, output) == (1, b"")
    assert b"run it on Linux, on macOS or in the Windows Subsystem" in errors


@pytest.fixture(scope="module")
def readme_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of README's first server."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    source = readme.partition("<!-- test: file=server.py -->\n```python\n")[2].partition("```")[0]
    path = tmp_path_factory.mktemp("readme") / "server.py"
    path.write_text(source, encoding="utf-8")
    return str(path)


def line(id: int | None, method: str, params: dict[str, Any]) -> bytes:
    """Return a message as a program on Windows may write it, with CR and LF."""
    fields = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(fields if id is None else {**fields, "id": id}).encode() + b"\r\n"


def test_the_server_of_the_readme_answers(readme_server: str) -> None:
    requests = [line(1, "initialize", HELLO), line(None, "notifications/initialized", {}), line(2, "tools/list", {})]
    requests.append(line(3, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}))
    with emulated.start(readme_server) as server:
        output, errors = server.communicate(b"".join(requests), timeout=emulated.DEADLINE)
    assert (server.returncode, errors) == (0, b"")
    assert b"\r" not in output
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, output.splitlines())}
    assert answers[1]["protocolVersion"] == "2025-11-25"
    assert [tool["name"] for tool in answers[2]["tools"]] == ["add"]
    assert answers[3]["structuredContent"] == {"result": 3}


def test_what_a_tool_prints_is_utf_8_whatever_the_code_page() -> None:
    source = """
        from mcp_generated import App
        app = App("printer")

        @app.tool
        def show(text: str) -> str:
            print(text)
            return text

        app.run("stdio")
    """
    call = line(2, "tools/call", {"name": "show", "arguments": {"text": "日本 é"}})
    with emulated.start("-c", re.sub(r"^ {8}", "", source, flags=re.MULTILINE)) as server:
        requests = line(1, "initialize", HELLO) + line(None, "notifications/initialized", {}) + call
        output, errors = server.communicate(requests, timeout=emulated.DEADLINE)
    assert json.loads(output.splitlines()[1])["result"]["content"][0]["text"] == "日本 é"
    assert errors.decode() == "日本 é\n"


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR2], ids=["Ctrl-C", "Ctrl-Break"])
@pytest.mark.parametrize("tool", [None, "block"])
def test_ctrl_c_and_ctrl_break_end_a_server(number: signal.Signals, tool: str | None) -> None:
    """SIGUSR2 stands for the SIGBREAK of Windows."""
    with emulated.start(FAULTY, "2025-11-25") as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(line(1, "initialize", HELLO))
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        if tool is not None:
            server.stdin.write(line(None, "notifications/initialized", {}))
            server.stdin.write(line(2, "tools/call", {"name": tool, "arguments": {}}))
            server.stdin.flush()
        server.send_signal(number)
        assert server.wait(emulated.DEADLINE) == 128 + number


@pytest.mark.long
def test_a_server_whose_loop_is_blocked_ends_with_its_client() -> None:
    with emulated.start(FAULTY, "2025-11-25") as server:
        server.stdin.write(line(1, "initialize", HELLO))  # type: ignore[union-attr]
        server.stdin.write(line(None, "notifications/initialized", {}))  # type: ignore[union-attr]
        server.stdin.write(line(2, "tools/call", {"name": "block", "arguments": {}}))  # type: ignore[union-attr]
        server.stdin.close()  # type: ignore[union-attr]
        assert server.wait(emulated.DEADLINE) == 1


CLIENT = """
    import asyncio, json, os, sys, threading, time
    from sitecustomize import MARK, members
    from mcp_generated import connect
    from mcp_generated.v2025_06_18 import Client
    from mcp_runtime.errors import ConnectionClosedError

    def runs(pid):
        try:
            return open(f"/proc/{pid}/stat").read().split()[2] != "Z"
        except OSError:
            return False

    async def main():
        server, faulty = sys.argv[1:]
        seen = {"platform": sys.platform, "lines": []}
        async with connect([sys.executable, server]) as client:
            seen["tools"] = [tool.name for tool in await client.list_tools()]
            results = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 1}) for n in range(200)))
            seen["sum"] = sum(result.structured_content["result"] for result in results)
        async with Client.stdio(sys.executable, faulty, stderr=seen["lines"].append) as client:
            seen["large"] = len((await client.call_tool(name="large", arguments={"size": 3 << 20})).content[0].text)
            child = int((await client.call_tool(name="child")).content[0].text)
            hanging = [asyncio.create_task(client.call_tool(name="hang")) for _ in range(20)]
            try:
                await client.call_tool(name="last words")
            except ConnectionClosedError as error:
                seen["reason"] = str(error)
            ends = await asyncio.gather(*hanging, return_exceptions=True)
            seen["ends"] = sorted({type(end).__name__ for end in ends})
        deadline = time.monotonic() + 10
        while runs(child) and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        seen["child"] = runs(child)
        seen["threads"] = threading.active_count()
        return seen

    print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.long
@pytest.mark.parametrize("variables", [{}, {"EMULATED_CONSOLE": "0"}], ids=["a console", "no console"])
def test_a_client_calls_servers_and_ends_all_that_they_started(readme_server: str, variables: dict[str, str]) -> None:
    seen = emulated.run(CLIENT, readme_server, FAULTY, **variables)
    assert seen["platform"] == "win32" and seen["tools"] == ["add"] and seen["sum"] == sum(range(1, 201))
    assert seen["large"] == 3 << 20
    assert "exit code 1" in seen["reason"] and "the disk is full" in seen["reason"]
    assert seen["lines"] == ["Traceback: the disk is full"]
    assert seen["ends"] == ["ConnectionClosedError"]
    assert seen["child"] is False and seen["threads"] == 1


STUBBORN = """
    import asyncio, json, sys
    from sitecustomize import members
    from mcp_generated.v2025_06_18 import Client

    SERVER = '''
    import json, os, signal, sys, time
    def note(number, frame): print("Ctrl-Break", file=sys.stderr, flush=True)
    signal.signal(signal.SIGBREAK, note)
    hello = json.loads(sys.stdin.readline())
    result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    print("noise", flush=True)
    print("x" * (9 << 20), flush=True)
    print(json.dumps({"jsonrpc": "2.0", "id": hello["id"], "result": result}), flush=True)
    while True: time.sleep(60)
    '''

    async def main():
        lines = []
        client = Client.stdio(sys.executable, "-c", SERVER.replace("\\n    ", "\\n"), stderr=lines.append)
        async with client:
            child = client._session.transport._child
        from sitecustomize import _marks
        return {"lines": lines, "code": child.returncode, "left": members(_marks[child.pid])}

    print(json.dumps(asyncio.run(main())))
"""


@pytest.mark.long  # The server has two seconds to end after its input is closed, and two after Ctrl-Break.
def test_a_server_that_ignores_ctrl_break_is_killed_and_noise_is_skipped() -> None:
    seen = emulated.run(STUBBORN)
    assert seen == {"lines": ["Ctrl-Break"], "code": -signal.SIGKILL, "left": []}


def test_the_emulation_lacks_what_windows_lacks() -> None:
    source = """
        import asyncio, json, os, select, signal, sys
        names = [(select, "poll"), (os, "killpg"), (os, "waitid"), (os, "fork"), (signal, "SIGKILL")]
        async def watch():
            try:
                asyncio.get_running_loop().add_reader(0, print)
            except NotImplementedError:
                return True
        print(json.dumps([sys.platform, [hasattr(*name) for name in names], asyncio.run(watch())]))
    """
    assert emulated.run(source) == ["win32", [False] * 5, True]


def test_closing_a_descriptor_that_is_read_is_noticed() -> None:
    source = """
        import os, threading, time
        reader, writer = os.pipe()
        threading.Thread(target=os.read, args=(reader, 1), daemon=True).start()
        from sitecustomize import _reading
        while reader not in _reading:
            time.sleep(0.001)
        os.close(reader)
    """
    with emulated.start("-c", re.sub(r"^ {8}", "", source, flags=re.MULTILINE)) as program:
        _, errors = program.communicate(timeout=emulated.DEADLINE)
    assert program.returncode == 99 and b"while a thread reads it" in errors
