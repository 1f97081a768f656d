// The official app and the official host of the apps extension, over a pair of streams of lines. Arguments: the folder
// of the package, then `app COMMAND…` (starts a host as a child and prints what it was told as JSON) or `host`.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [folder, side, ...command] = process.argv.slice(2);
const { App } = await import(pathToFileURL(`${folder}/dist/src/app.js`));
const { AppBridge } = await import(pathToFileURL(`${folder}/dist/src/app-bridge.js`));

class Lines {
  constructor(input, output, end) {
    this.input = input;
    this.output = output;
    this.end = end;
  }
  async start() {
    this.reader = createInterface({ input: this.input });
    this.reader.on("line", (line) => line.trim() && this.onmessage?.(JSON.parse(line)));
    this.reader.on("close", () => this.onclose?.());
  }
  async send(message) {
    this.output.write(`${JSON.stringify(message)}\n`);
  }
  async close() {
    this.reader.close();
    this.end();
  }
}

const inform = { name: "official", version: "2" };

if (side === "host") {
  const capabilities = { openLinks: {}, message: { text: {} }, logging: {}, serverTools: {} };
  const host = new AppBridge(null, inform, capabilities, { hostContext: { theme: "light", platform: "web" } });
  host.onopenlink = async ({ url }) => ({ isError: !url.startsWith("https:") });
  host.onmessage = async () => ({});
  host.onrequestdisplaymode = async () => ({ mode: "inline" });
  host.oncalltool = async ({ name }) => {
    const told = name === "ask-the-app" ? await host.callTool({ name: "where", arguments: {} }) : undefined;
    return told ?? { content: [{ type: "text", text: `${name} ran` }] };
  };
  host.oninitialized = async () => {
    await host.sendToolInput({ arguments: { city: "Rome" } });
    await host.sendToolResult({ content: [{ type: "text", text: "sunny" }] });
  };
  await host.connect(new Lines(process.stdin, process.stdout, () => process.exit(0)));
} else {
  const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  const app = new App(inform, { tools: {} }, { autoResize: false });
  const shown = [];
  const done = new Promise((resolve) => {
    app.ontoolinput = (params) => shown.push(params.arguments.city);
    app.ontoolresult = (params) => resolve(shown.push(params.content[0].text));
  });
  app.oncalltool = async () => ({ content: [{ type: "text", text: "here" }] });
  await app.connect(new Lines(child.stdout, child.stdin, () => child.stdin.end()));
  await done;
  const said = {
    host: app.getHostVersion().name,
    theme: app.getHostContext().theme,
    capabilities: Object.keys(app.getHostCapabilities()).sort(),
    shown,
    opened: (await app.openLink({ url: "https://example.org/" })).isError ?? false,
    refused: (await app.openLink({ url: "file:///etc/passwd" })).isError,
    ran: (await app.callServerTool({ name: "forecast" })).content[0].text,
    asked: (await app.callServerTool({ name: "ask-the-app" })).content[0].text,
    mode: (await app.requestDisplayMode({ mode: "fullscreen" })).mode,
    message: await app.sendMessage({ role: "user", content: [{ type: "text", text: "and tomorrow?" }] }),
  };
  child.on("exit", (code) => {
    console.log(JSON.stringify({ ...said, exit: code }));
    process.exit(0);
  });
  await app.close();
}
