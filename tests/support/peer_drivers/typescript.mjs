// A package's folder, a way, a URL and what is offered go in; what the official TypeScript client saw comes out as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, way, url, offered] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const old = folder.includes("sdk");
const parts = old
  ? {
      ...(await load("@modelcontextprotocol/sdk/client/index.js")),
      ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
      ...(await load("@modelcontextprotocol/sdk/client/sse.js")),
    }
  : await load("@modelcontextprotocol/client");
const Transport = way === "sse" ? parts.SSEClientTransport : parts.StreamableHTTPClientTransport;
const transport = new Transport(new URL(url));
let version;
const settings = offered === "auto" ? { versionNegotiation: { mode: "auto" } } : {};
const client = new parts.Client({ name: "driver", version: "1" }, settings);
if (transport.setProtocolVersion) {
  const set = transport.setProtocolVersion.bind(transport);
  transport.setProtocolVersion = (said) => set((version = said));
}
const text = async (name, args, options) =>
  (await client.callTool({ name, arguments: args }, ...(old ? [undefined, options] : [options]))).content[0].text;
await client.connect(transport);
const steps = [];
const seen = {
  version: client.getNegotiatedProtocolVersion?.() ?? version ?? null,
  server: client.getServerVersion().name,
  tools: (await client.listTools()).tools.map((tool) => tool.name),
  echo: await text("echo", { text: "héllo\n\u2028" }),
  steps: await text("steps", { steps: 3 }, { onprogress: (said) => steps.push(said.progress) }),
  big: (await text("big", {})).length,
  failure: await text("raise", {}).then(
    () => null,
    (fault) => ({ code: fault.code, message: fault.message }),
  ),
  together: await Promise.all([..."abcdefghi"].map((each) => text("echo", { text: each }))),
};
seen.progress = steps;
const gone = text("wait", {}, { signal: AbortSignal.timeout(300) }).then(
  () => "answered",
  () => "given up",
);
seen.cancelled = await gone;
while (JSON.parse(await text("status", {})).waiting > 0);
seen.status = JSON.parse(await text("status", {}));
if (transport.terminateSession) await transport.terminateSession();
await client.close();
console.log(JSON.stringify(seen));
