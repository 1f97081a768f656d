"""Debug a program with generated bindings of the Debug Adapter Protocol, and print what the adapter says as JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from dap_bindings import Client
from dap_bindings import types as t

from mcp_runtime.errors import RemoteJSONRPCError

PROGRAM = "import sys\n\n\ndef area(side: int) -> int:\n    return side * side\n\n\nprint(area(7))\nsys.exit(3)\n"


class Debugger(Client):
    def __init__(self) -> None:
        super().__init__()
        self.ready = asyncio.Event()
        self.ended = asyncio.Event()
        self.stops = asyncio.Queue[t.StoppedEventBody]()
        self.output = ""
        self.commands: list[list[str]] = []
        self.code: int | None = None

    async def on_initialized(self) -> None:
        self.ready.set()

    async def on_stopped(self, params: t.StoppedEventBody) -> None:
        self.stops.put_nowait(params)

    async def on_output(self, params: t.OutputEventBody) -> None:
        self.output += params.output if params.category == "stdout" else ""

    async def on_run_in_terminal(self, params: t.RunInTerminalRequestArguments) -> t.RunInTerminalResult:
        self.commands.append(params.args)
        process = await asyncio.create_subprocess_exec(*params.args, cwd=params.cwd, stdout=sys.stderr)
        return t.RunInTerminalResult(process_id=process.pid)

    async def on_exited(self, params: t.ExitedEventBody) -> None:
        self.code = params.exit_code

    async def on_terminated(self, params: t.TerminatedEventBody) -> None:
        self.ended.set()


async def main(folder: Path, console: str, python: str) -> None:
    program = folder / "area.py"
    program.write_text(PROGRAM, encoding="utf-8")
    # What the adapter starts is this Python, and what it looks for is not on the path of the bindings.
    async with Debugger().start(python, "-m", "debugpy.adapter", cwd=str(folder)) as adapter:
        capabilities = await adapter.initialize(
            t.InitializeRequestArguments(adapter_id="python", supports_run_in_terminal_request=True), timeout=30
        )
        settings = {"program": str(program), "console": console, "python": [python]}
        launched = asyncio.create_task(adapter.launch(t.LaunchRequestArguments.model_validate(settings), timeout=60))
        await asyncio.wait_for(adapter.ready.wait(), 60)
        wanted = t.SetBreakpointsArguments(source=t.Source(path=str(program)), breakpoints=[t.SourceBreakpoint(line=5)])
        points = await adapter.set_breakpoints(wanted, timeout=30)
        await adapter.configuration_done(t.ConfigurationDoneArguments(), timeout=30)
        await launched
        stop = await asyncio.wait_for(adapter.stops.get(), 60)
        assert stop.thread_id is not None
        frames = await adapter.stack_trace(t.StackTraceArguments(thread_id=stop.thread_id), timeout=30)
        top = frames.stack_frames[0]
        value = await adapter.evaluate(t.EvaluateArguments(expression="side * 100", frame_id=top.id), timeout=30)
        try:
            await adapter.variables(t.VariablesArguments(variables_reference=99_999_999), timeout=30)
            refused = ""
        except RemoteJSONRPCError as error:
            refused = error.message
        await adapter.continue_(t.ContinueArguments(thread_id=stop.thread_id), timeout=30)
        await asyncio.wait_for(adapter.ended.wait(), 60)
        await adapter.disconnect(t.DisconnectArguments(), timeout=30)
    verified = [point.verified for point in points.breakpoints]
    print(
        json.dumps(
            {
                "configuration": capabilities.supports_configuration_done_request,
                "verified": verified,
                "stop": [stop.reason, top.name, top.line, value.result],
                "refused": bool(refused),
                "output": adapter.output.strip(),
                "commands": len(adapter.commands),
                "code": adapter.code,
            }
        )
    )


asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
