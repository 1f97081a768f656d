// Connects the official TypeScript client to the URL in the page's fragment, and writes what it sees into the title.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const transport = new StreamableHTTPClientTransport(new URL(location.hash.slice(1)));
const client = new Client({ name: "page", version: "1" });
try {
  await client.connect(transport);
  const progress: number[] = [];
  const result: any = await client.callTool({ name: "add", arguments: { a: 1, b: 2 } }, undefined, {
    onprogress: (seen) => progress.push(seen.progress),
  });
  const session = transport.sessionId !== undefined;
  await transport.terminateSession();
  document.title = JSON.stringify({ text: result.content[0].text, progress, session });
} catch (error) {
  document.title = JSON.stringify({ error: String(error) });
}
