// A package's folder, what is offered, and a server's command or URL go in; what the official TypeScript client saw of
// examples/everything/app.py comes out as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, offered, ...server] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const old = folder.includes("sdk");
const parts = old
  ? {
      ...(await load("@modelcontextprotocol/sdk/client/index.js")),
      ...(await load("@modelcontextprotocol/sdk/client/stdio.js")),
      ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
      ...(await load("@modelcontextprotocol/sdk/types.js")),
    }
  : { ...(await load("@modelcontextprotocol/client")), ...(await load("@modelcontextprotocol/client/stdio")) };
const [command, ...args] = server;
const transport = args.length
  ? new parts.StdioClientTransport({ command, args })
  : new parts.StreamableHTTPClientTransport(new URL(command));
const capabilities = { sampling: {}, elicitation: {}, roots: {} };
const settings = { capabilities, ...(offered === "auto" ? { versionNegotiation: { mode: "auto" } } : {}) };
const client = new parts.Client({ name: "driver", version: "1" }, settings);
const answers = {
  "sampling/createMessage": ({ params }) => ({
    role: "assistant",
    model: "parrot",
    stopReason: "endTurn",
    content: { type: "text", text: [params.messages[0].content].flat()[0].text.toUpperCase() },
  }),
  "elicitation/create": () => ({ action: "accept", content: { name: "Ada", size: "s" } }),
  "roots/list": () => ({ roots: [{ uri: "file:///work", name: "work" }] }),
};
const schemas = {
  "sampling/createMessage": parts.CreateMessageRequestSchema,
  "elicitation/create": parts.ElicitRequestSchema,
  "roots/list": parts.ListRootsRequestSchema,
};
for (const [method, answer] of Object.entries(answers))
  client.setRequestHandler(old ? schemas[method] : method, async (request) => answer(request));
await client.connect(transport);
const call = (name, given, options) =>
  client
    .callTool({ name, arguments: given }, ...(old ? [undefined, options] : [options]))
    .catch((fault) => ({ error: { code: fault.code, message: fault.message } }));
const calls = {
  echo: { text: "héllo\n\u2028" },
  statistics: { numbers: [1, 2.5] },
  ...Object.fromEntries(["image", "audio", "mixed", "fail", "list_roots", "elicit_name", "nonsense"].map((n) => [n, {}])),
  sample: { prompt: "hello" },
  log_something: { level: "error", text: "shown" },
};
const progress = [];
const seen = { tools: (await client.listTools()).tools.map((tool) => tool.name), calls: {} };
for (const [name, given] of Object.entries(calls)) seen.calls[name] = await call(name, given);
seen.resource = await client.readResource({ uri: "demo://number/7" });
seen.prompt = await client.getPrompt({ name: "describe", arguments: { city: "Rome" } });
const asked = { ref: { type: "ref/prompt", name: "describe" }, argument: { name: "city", value: "pa" } };
seen.completion = (await client.complete(asked)).completion.values;
const onprogress = (said) => progress.push([said.progress, said.total, said.message]);
await call("long_running", { seconds: 0.3, steps: 2 }, { onprogress });
seen.progress = progress;
await client.close();
console.log(JSON.stringify(seen));
