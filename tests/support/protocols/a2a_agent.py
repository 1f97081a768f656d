"""An agent of `a2a-sdk` 0.3 over HTTP: it repeats what it is sent, word for word, and works without end on "wait"."""

import asyncio
import socket

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, Part, TaskState, TextPart
from a2a.utils import new_task


class Repeats(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        for word in context.get_user_input().split():
            while word == "wait":  # Whoever subscribes later gets an event too.
                await updater.update_status(TaskState.working)
                await asyncio.sleep(0.05)
            await updater.add_artifact([Part(root=TextPart(text=word))], name="word")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


card = AgentCard(
    name="Repeats",
    description="Repeats words.",
    url="http://127.0.0.1/",
    version="1",
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[],
)
handler = DefaultRequestHandler(agent_executor=Repeats(), task_store=InMemoryTaskStore())
listening = socket.create_server(("127.0.0.1", 0))
print(f"listening at http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
server = uvicorn.Server(uvicorn.Config(A2AStarletteApplication(card, handler).build(), log_level="warning"))
asyncio.run(server.serve([listening]))
