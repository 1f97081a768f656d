"""A server of the tasks extension: calls of tools become tasks; one asks for input before it is done."""

from __future__ import annotations

from datetime import UTC, datetime

from mcp_generated.extensions.tasks import Context, Server
from mcp_generated.extensions.tasks import types as t
from mcp_runtime.errors import JSONRPCError

NOW = datetime(2026, 1, 1, tzinfo=UTC).isoformat()


class Tasks(Server):
    """Keeps its tasks in a dictionary, by id."""

    held: dict[str, t.GetTaskResult]

    def call_tool(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult | t.CreateTaskResult:
        if params.name == "greet":
            return t.CallToolResult(content=[t.TextContent(text="Hello")])
        id = f"task-{len(self.held)}"
        schema = t.RequestedSchema(properties={})
        request = t.ElicitRequest(params=t.ElicitRequestFormParams(message="Sure?", requested_schema=schema))
        self.held[id] = t.GetTaskResult(
            task_id=id, status="input_required", created_at=NOW, last_updated_at=NOW, ttl_ms=None
        )
        self.held[id].input_requests = {"sure": request}
        return t.CreateTaskResult(task_id=id, status="working", created_at=NOW, last_updated_at=NOW, ttl_ms=None)

    def get_task(self, ctx: Context, params: t.GetTaskRequestParams) -> t.GetTaskResult:
        if params.task_id not in self.held:
            raise JSONRPCError(-32602, f"there is no task {params.task_id!r}")
        return self.held[params.task_id]

    def update_task(self, ctx: Context, params: t.UpdateTaskRequestParams) -> t.UpdateTaskResult:
        done = t.CallToolResult(content=[t.TextContent(text="deleted")])
        task = self.held[params.task_id]
        task.status = "completed"
        task.input_requests = None
        task.result = done.model_dump(by_alias=True)
        return t.UpdateTaskResult()

    def cancel_task(self, ctx: Context, params: t.CancelTaskRequestParams) -> t.CancelTaskResult:
        self.held[params.task_id].status = "cancelled"
        self.held[params.task_id].input_requests = None
        return t.CancelTaskResult()


if __name__ == "__main__":
    server = Tasks(name="tasks", version="1")
    server.held = {}
    server.run("stdio")
