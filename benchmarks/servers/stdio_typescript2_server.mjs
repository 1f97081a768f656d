// The echo server of the benchmark, written on the low-level server of the official TypeScript SDK, second major version.
import { Server } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";

const inputSchema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const server = new Server({ name: "echo", version: "1.0" }, { capabilities: { tools: {} } });

server.setRequestHandler("tools/list", async () => ({ tools: [{ name: "echo", inputSchema }] }));
server.setRequestHandler("tools/call", async ({ params }) => ({
  content: [{ type: "text", text: String(params.arguments.text) }],
}));

await server.connect(new StdioServerTransport());
