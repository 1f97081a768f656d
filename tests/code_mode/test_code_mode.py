"""Code mode: a model searches functions and runs programs, and each call of a program is one of the client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.installation.extras import optional

from mcp_generated import REVISIONS, App, Gateway, LocalError, ToolError
from mcp_generated.code_mode import CodeLimits, CodeMode
from mcp_generated.middleware import Middleware

monty: Any = optional("pydantic_monty")
pytestmark = pytest.mark.skipif(not monty, reason="needs the extra code: pydantic_monty is not installed")


def shop() -> App:
    app = App("shop", version="1.0")

    @app.tool()
    def list_orders(customer: str) -> list[str]:
        """List the ids of the orders of a customer."""
        return [f"{customer}-{number}" for number in range(3)]

    @app.tool()
    def get_order(order_id: str, currency: str = "eur") -> dict[str, Any]:
        """Return one order.

        Args:
            order_id: The id of the order.
        """
        return {"id": order_id, "total": 10.5, "currency": currency}

    @app.tool(structured_output=False)
    def refund(order_id: str) -> str:
        """Refund an order."""
        raise ToolError(f"the order {order_id} is not paid")

    return app


def with_code_mode(app: App, **settings: Any) -> App:
    app.add_transform(CodeMode(**settings))
    return app


PROCESSES = """
import asyncio, gc, os
from contextlib import suppress
from pathlib import Path
from mcp_generated import App, connect
from mcp_generated.code_mode import CodeMode

def sandboxes():
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # It may have ended.
            is_child = f"PPid:\\t{os.getpid()}\\n" in (process / "status").read_text()
            count += is_child and b"monty" in (process / "cmdline").read_bytes()
    return count

async def main():
    app = App("short")
    app.add_transform(CodeMode())
    async with connect(app) as client:
        await client.call_tool("run_python", {"code": "1 + 1"})
    print(sandboxes() > 0)
    del app, client
    while sandboxes():
        gc.collect()
        await asyncio.sleep(0.01)
    print(sandboxes())

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc has the children of a process on Linux")
def test_the_processes_of_an_app_that_nobody_has_end() -> None:
    done = subprocess.run([sys.executable, "-c", PROCESSES], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True", "0"], done.stderr


async def ran(app: App, code: str, **more: Any) -> tuple[bool, str]:
    """Whether a program succeeded, and what the model reads."""
    async with connect(app, **more) as client:
        result = await client.call_tool("run_python", {"code": code})
    return not result.is_error, result.content[0].text


@pytest.mark.parametrize("version", REVISIONS)
async def test_a_model_searches_and_runs_in_every_version(version: str) -> None:
    async with connect(with_code_mode(shop()), revisions=[version]) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["search_tools", "run_python"]
        found = await client.call_tool("search_tools", {"query": "orders of a customer"})
        assert found.content[0].text.splitlines()[0] == "def list_orders(customer: str) -> list[str]:"
        code = "sum(get_order(one)['total'] for one in list_orders(customer='ann'))"
        assert (await client.call_tool("run_python", {"code": code})).content[0].text == "31.5"


async def test_a_program_prints_catches_and_returns_json() -> None:
    code = """
import json
try:
    refund("a-1")
except RuntimeError as error:
    print("refused:", error)
order = get_order("a-1", currency="usd")
order
"""
    ok, text = await ran(with_code_mode(shop()), code)
    assert ok and text.startswith("refused: refund(): the order a-1 is not paid\n{")
    assert json.loads(text.partition("\n")[2]) == {"id": "a-1", "total": 10.5, "currency": "usd"}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("x = 1\nget_order(id='a')", "line 2: get_order(id='a')\nTypeError: get_order() has no argument 'id'; it has"),
        ("get_order(1, 2, 3)", "line 1: get_order(1, 2, 3)\nTypeError: get_order() takes 2 arguments"),
        ("get_order('a', order_id='b')", "TypeError: get_order() got 'order_id' twice"),
        ("\n\nrefund('a')", "line 3: refund('a')\nRuntimeError: refund(): the order a is not paid"),
        ("def f(x):\n    return 1 / x\nf(0)", "line 3: f(0)\nline 2 in f: return 1 / x\nZeroDivisionError"),
        ("get_orders('a')", "line 1: get_orders('a')\nNameError: name 'get_orders' is not defined"),
        ("def (", "line 1"),
        ("run_python('1')", "NameError"),  # The tools of code mode are not functions.
    ],
)
async def test_an_error_names_the_line(code: str, text: str) -> None:
    ok, shown = await ran(with_code_mode(shop()), code)
    assert not ok and text in shown


@pytest.mark.parametrize(
    ("limits", "code", "text"),
    [
        (CodeLimits(calls=5), "for i in range(9): get_order('a')", "more than 5 calls of tools; ask for less at once"),
        (CodeLimits(seconds=0.2), "while True: pass", "TimeoutError: feed time limit exceeded"),
        (CodeLimits(memory=4 << 20), "x = []\nwhile True: x.append('a' * 1000)", "MemoryError: memory limit exceeded"),
        (CodeLimits(code=10), "print('too long')", "the program has 17 characters, the limit is 10: shorten it"),
    ],
)
async def test_a_limit_ends_a_program_and_the_next_one_runs(limits: CodeLimits, code: str, text: str) -> None:
    app = with_code_mode(shop(), limits=limits)
    async with connect(app) as client:
        result = await client.call_tool("run_python", {"code": code})
        assert result.is_error and text in result.content[0].text
        assert (await client.call_tool("run_python", {"code": "1 + 1"})).content[0].text == "2"


async def test_long_output_is_cut_and_said_so() -> None:
    ok, text = await ran(with_code_mode(shop(), limits=CodeLimits(output=100)), "print('x' * 350)")
    assert ok and text == "x" * 100 + "\n… 251 more characters: print less"


async def test_a_call_that_waits_too_long_ends_the_program() -> None:
    app, never = App("slow"), asyncio.Event()

    @app.tool()
    async def wait() -> str:
        await never.wait()
        return ""

    ok, text = await ran(with_code_mode(app, limits=CodeLimits(total_seconds=0.2)), "wait()")
    assert not ok and text == "the program took more than 0.2 s with its calls"


async def test_each_call_passes_the_middleware_and_hidden_tools_stay_hidden() -> None:
    seen: list[str] = []

    class Audit(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            seen.append(context.message.name)
            return await call_next(context)

    app = shop()
    app.add_middleware(Audit())
    app.disable(names={"refund"})
    ok, text = await ran(with_code_mode(app), "[get_order(i)['id'] for i in list_orders('b')]")
    assert ok and text == '["b-0", "b-1", "b-2"]'
    assert seen == ["run_python", "list_orders", "get_order", "get_order", "get_order"]
    assert "NameError" in (await ran(app, "refund('a')"))[1]
    assert "nothing of 2 functions has these words" in await searched(app, "refund")


async def searched(app: App, query: str) -> str:
    async with connect(app) as client:
        return str((await client.call_tool("search_tools", {"query": query})).content[0].text)


async def test_a_proxy_has_code_mode() -> None:
    ok, text = await ran(with_code_mode(App.proxy(shop())), "len(list_orders('c'))")
    assert (ok, text) == (True, "3")


async def test_a_gateway_has_code_mode_and_its_rules_and_audit_log_hold(tmp_path: Path) -> None:
    source = "from mcp_generated import App\napp = App('a')\napp.tool(name='add')(lambda a, b: a + b)\n"
    source += "app.tool(name='drop')(lambda: 1)\napp.run()\n"
    packages = ":".join(path for path in sys.path if path)
    entry = {"command": sys.executable, "args": ["-c", source], "env": {"PYTHONPATH": packages}, "deny": ["drop"]}
    audit = tmp_path / "audit.jsonl"
    gateway = Gateway({"gateway": {"code_mode": True, "audit": str(audit)}, "upstreams": {"sums": entry}})
    async with connect(gateway.app) as client:
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["search_tools", "run_python"]
        code = "try:\n    sums_drop()\nexcept NameError as error:\n    print(error)\nsums_add(a=1, b=2)"
        result = await client.call_tool("run_python", {"code": code})
    assert result.content[0].text.startswith("name 'sums_drop' is not defined\n")
    assert [json.loads(line)["name"] for line in audit.read_text().splitlines()] == ["add"]


def test_wrong_settings_name_the_value() -> None:
    with pytest.raises(LocalError, match=r"code_mode is true or false: write code_mode = false"):
        Gateway({"gateway": {"code_mode": "yes"}, "upstreams": {"a": {"command": "a"}}})
    with pytest.raises(LocalError, match="max_results must be 1 or more; 0 is not"):
        CodeMode(max_results=0)
    with pytest.raises(LocalError, match=r"always_visible must be a list of names; write \['a'\]"):
        CodeMode(always_visible="a")


async def test_tools_that_stay_visible_are_listed() -> None:
    async with connect(with_code_mode(shop(), always_visible=["refund"])) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["refund", "search_tools", "run_python"]


@pytest.mark.long
async def test_programs_that_wait_leave_threads_to_those_that_run() -> None:
    """Each step of a program is a call of a thread; more programs than threads once stood still until a timeout."""
    from mcp_products.code_mode.monty import MontySandbox

    async def call(name: str, arguments: Any, keywords: Any) -> int:
        await asyncio.sleep(0.01)
        return 1

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    sandbox = MontySandbox(processes=1)
    programs = (sandbox.run("one() + one()", ["one"], call, CodeLimits()) for _ in range(12))
    async with asyncio.timeout(15):
        outcomes = await asyncio.gather(*programs)
    assert [outcome.value for outcome in outcomes] == [2] * 12
