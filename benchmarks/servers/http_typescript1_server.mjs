// The echo server of the benchmark over HTTP, on the official TypeScript SDK, first major version; the port is the argument.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const inputSchema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const sessions = new Map();

async function open() {
  const server = new Server({ name: "echo", version: "1.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: [{ name: "echo", inputSchema }] }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => ({
    content: [{ type: "text", text: String(params.arguments.text) }],
  }));
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await server.connect(transport);
  return transport;
}

createServer(async (request, response) => {
  const id = request.headers["mcp-session-id"];
  await (sessions.get(id) ?? (await open())).handleRequest(request, response);
}).listen(Number(process.argv[2]), "127.0.0.1");
