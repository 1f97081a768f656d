// A package's folder is the argument. The runs as JSON are the standard input: a revision, a server's command or URL, and
// steps. What the command line of the Inspector prints for each step, run in this process, is printed as JSON.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [folder] = process.argv.slice(2);
const main = `${folder}/node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js`;
const { runCli } = await import(pathToFileURL(main));
const words = {
  server: () => ["initialize"],
  tools: () => ["tools/list"],
  resources: () => ["resources/list"],
  templates: () => ["resources/templates/list"],
  prompts: () => ["prompts/list"],
  read: (step) => ["resources/read", "--uri", step.uri],
  prompt: (step) => ["prompts/get", "--prompt-name", step.name, ...pairs("--prompt-args", step.arguments)],
  call: (step) => [
    ...["tools/call", "--tool-name", step.name, "--tool-args-json", JSON.stringify(step.arguments)],
    ...pairs("--metadata", step.meta ?? {}),
  ],
};
const pairs = (option, values) => Object.entries(values).flatMap(([name, value]) => [option, `${name}=${value}`]);
const fields = { tools: "tools", resources: "resources", templates: "resourceTemplates", prompts: "prompts" };
const read = ({ op }, { printed, error }) => {
  if (!printed?.trim()) return { error };
  const value = JSON.parse(printed);
  const result = value.result ?? value;
  return { result: op in fields ? result[fields[op]] : op === "server" ? (result.serverInfo ?? result) : result };
};
const outcomesOf = async ({ revision, server, steps }) => {
  const era = ["--protocol-era", revision === "2026-07-28" ? "modern" : "legacy"];
  const outcomes = [];
  const seen = new Map(); // Over stdio, a request is one of a new process: the same request has the same response.
  for (const step of steps) {
    const key = JSON.stringify(step);
    if (server.length > 1 && seen.has(key)) {
      outcomes.push(outcomes[seen.get(key)]);
      continue;
    }
    seen.set(key, outcomes.length);
    if (!(step.op in words)) {
      outcomes.push({ error: { message: "the command line has no such method" } });
      continue;
    }
    let printed = "";
    const write = process.stdout.write;
    process.stdout.write = (data, ...rest) => {
      printed += data;
      for (const value of rest) if (typeof value === "function") value();
      return true;
    };
    const command = ["node", "inspector-cli", ...server, "--method", ...words[step.op](step), ...era];
    try {
      await runCli([...command, "--format", "json", "--quiet"]);
      outcomes.push({ printed });
    } catch (fault) {
      outcomes.push({ printed, error: { message: String(fault.message) } });
    } finally {
      process.stdout.write = write;
    }
  }
  return outcomes.map((outcome, index) => read(steps[index], outcome));
};
const all = [];
for (const run of JSON.parse(readFileSync(0, "utf8"))) all.push(await outcomesOf(run));
process.stdout.write(JSON.stringify(all), () => process.exit(0));
