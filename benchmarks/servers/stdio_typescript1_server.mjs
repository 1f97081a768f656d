// The echo server of the benchmark, written on the low-level server of the official TypeScript SDK, first major version.
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const inputSchema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const server = new Server({ name: "echo", version: "1.0" }, { capabilities: { tools: {} } });

server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: [{ name: "echo", inputSchema }] }));
server.setRequestHandler(CallToolRequestSchema, async ({ params }) => ({
  content: [{ type: "text", text: String(params.arguments.text) }],
}));

await server.connect(new StdioServerTransport());
