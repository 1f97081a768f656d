// A package's folder is the argument. The runs as JSON are the standard input: a revision, a server's command or URL, and
// steps. What the official TypeScript client received from the app with all features is printed as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const old = folder.includes("sdk-1");
const newest = "2026-07-28";
const parts = old
  ? {
      ...(await load("@modelcontextprotocol/sdk/client/index.js")),
      ...(await load("@modelcontextprotocol/sdk/client/stdio.js")),
      ...(await load("@modelcontextprotocol/sdk/client/sse.js")),
      ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
      ...(await load("@modelcontextprotocol/sdk/types.js")),
    }
  : { ...(await load("@modelcontextprotocol/client")), ...(await load("@modelcontextprotocol/client/stdio")) };
const outcomesOf = async ({ revision, server, steps }) => {
  const [command, ...args] = server;
  const HTTP = command.endsWith("/sse") ? parts.SSEClientTransport : parts.StreamableHTTPClientTransport;
  const transport = args.length ? new parts.StdioClientTransport({ command, args }) : new HTTP(new URL(command));
  if (old) {
    // This SDK has no setting for the version that it offers.
    const send = transport.send.bind(transport);
    transport.send = (message, options) => {
      if (message.method === "initialize") message.params.protocolVersion = revision;
      return send(message, options);
    };
  }
  const changes = [];
  const kinds = ["tools", "prompts", "resources"];
  const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} };
  const changed = (kind) => ({ autoRefresh: false, debounceMs: 0, onChanged: () => changes.push(kind) });
  const settings = {
    capabilities,
    listChanged: Object.fromEntries(kinds.map((kind) => [kind, changed(kind)])),
    ...(old ? {} : { supportedProtocolVersions: [revision] }),
    ...(!old && revision === newest ? { versionNegotiation: { mode: "auto" } } : {}),
  };
  const client = new parts.Client({ name: "driver", version: "1" }, settings);
  const text = (content) => [content].flat()[0].text;
  const answers = {
    "sampling/createMessage": ({ params }) => ({
      role: "assistant",
      model: "parrot",
      content: {
        type: "text",
        text: (params.systemPrompt ?? "").includes('"good"')
          ? '{"good": true}'
          : text(params.messages.at(-1).content).toUpperCase(),
      },
    }),
    "elicitation/create": ({ params }) => {
      if (params.message.includes("decline")) return { action: "decline" };
      return params.mode === "url" ? { action: "accept" } : { action: "accept", content: { name: "Ada", guests: 3 } };
    },
    "roots/list": () => ({ roots: [{ uri: "file:///work", name: "work" }] }),
  };
  const schemas = {
    "sampling/createMessage": parts.CreateMessageRequestSchema,
    "elicitation/create": parts.ElicitRequestSchema,
    "roots/list": parts.ListRootsRequestSchema,
  };
  for (const [method, answer] of Object.entries(answers))
    client.setRequestHandler(old ? schemas[method] : method, async (request) => answer(request));
  let logs = [];
  client.setNotificationHandler(old ? parts.LoggingMessageNotificationSchema : "notifications/message", ({ params }) =>
    logs.push([params.level, params.data, params.logger ?? null]),
  );
  await client.connect(transport);
  const lists = {
    tools: () => client.listTools().then((result) => result.tools),
    resources: () => client.listResources().then((result) => result.resources),
    templates: () => client.listResourceTemplates().then((result) => result.resourceTemplates),
    prompts: () => client.listPrompts().then((result) => result.prompts),
  };
  let progress = [];
  const done = async (step) => {
    if (step.op in lists) return lists[step.op]();
    if (step.op === "server") return client.getServerVersion();
    if (step.op === "read") return client.readResource({ uri: step.uri });
    if (step.op === "prompt") return client.getPrompt({ name: step.name, arguments: step.arguments });
    if (step.op === "complete") {
      const argument = { name: step.name, value: step.value };
      const ref = { type: "ref/prompt", name: step.prompt };
      return client.complete({ ref, argument }).then((result) => result.completion);
    }
    const options = step.progress
      ? { onprogress: (value) => progress.push([value.progress, value.total, value.message ?? null]) }
      : {};
    const params = { name: step.name, arguments: step.arguments, ...(step.meta ? { _meta: step.meta } : {}) };
    return client.callTool(params, ...(old ? [undefined, options] : [options]));
  };
  const outcomes = [];
  for (const step of steps) {
    [logs, progress] = [[], []];
    changes.length = 0;
    try {
      const result = await done(step);
      const end = Date.now() + 10000;
      const waits = () => (step.changes ?? []).some((kind) => !changes.includes(kind)) || logs.length < (step.logs ?? 0);
      while (waits() && Date.now() < end)
        await new Promise((resolve) => setImmediate(resolve));
      outcomes.push({ result, logs, progress, changes: [...changes] });
    } catch (fault) {
      outcomes.push({ error: { code: fault.code, message: String(fault.message) } });
    }
  }
  await client.close();
  return outcomes;
};
const all = [];
for (const run of JSON.parse(readFileSync(0, "utf8")))
  all.push(await outcomesOf(run).catch((fault) => ({ failed: String(fault.stack) })));
console.log(JSON.stringify(all));
