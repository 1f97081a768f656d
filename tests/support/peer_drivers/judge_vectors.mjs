// Print which instances of a file of vectors an official TypeScript SDK accepts: `judge_vectors.mjs FOLDER schemas|codec
// FILE`, `{id: true}` as JSON. FOLDER has the package. `schemas` are the public ones, by the names of the types; `codec`
// is what 2.x reads messages with, by their methods: its package keeps it to itself, so that it is found among its files.
// An instance of a type or a method that it does not have is left out.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, how, file] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const old = folder.includes("sdk");
const types = require(old ? "@modelcontextprotocol/sdk/types.js" : "@modelcontextprotocol/core");

const lines = readFileSync(file, "utf8").split("\n").filter(Boolean).map((text) => JSON.parse(text));
const instances = lines.filter((line) => line.kind === "instance");
const place = (line) => `${line.of} ${line.part}`;
const enveloped = new Set(instances.filter((line) => line.valid && "jsonrpc" in line.instance).map(place));

const accepts = (schema, value) => schema.safeParse(value).success;

function isEnvelope(line) {
  if (line.part === "result" || !enveloped.has(place(line))) return true;
  return accepts(line.part === "notification" ? types.JSONRPCNotificationSchema : types.JSONRPCRequestSchema, line.instance);
}

function bySchema(line) {
  const schema = types[`${line.type}Schema`];
  return schema && isEnvelope(line) && accepts(schema, line.instance);
}

function codecs() {
  const built = dirname(require.resolve("@modelcontextprotocol/client"));
  for (const name of readdirSync(built).filter((one) => one.endsWith(".cjs"))) {
    const { codecForVersion } = require(join(built, name));
    if (codecForVersion) return codecForVersion;
  }
  throw new Error(`no file of ${built} exports codecForVersion`);
}

// What reads each part of a message, in the order in which the SDK asks: a codec does not know all methods as messages,
// because those of a server are results of 2026-07-28, in which they are asked for.
const READERS = {
  request: (codec, { of, instance }) => [
    () => {
      const read = codec.validateRequest(of, instance);
      const envelope = instance.params?._meta;
      return read.ok && codec.checkInboundEnvelope({ envelope }) !== undefined ? { ok: false } : read;
    },
    () => codec.validateInputRequest(of, instance),
  ],
  notification: (codec, { of, instance }) => [() => codec.validateNotification(of, instance)],
  result: (codec, { of, instance }) => [
    () => {
      const read = of === "sampling/createMessage" ? codec.samplingResultVariant(true, instance) : codec.validateResult(of, instance);
      return read.ok && codec.decodeResult(of, instance).kind === "invalid" ? { ok: false } : read;
    },
    () => codec.validateInputResponse(of, instance),
  ],
};

function byCodec(codecForVersion, line) {
  const codec = codecForVersion(line.revision);
  for (const read of READERS[line.part](codec, line)) {
    const answer = read();
    if (answer.reason !== "not-in-era") return answer.ok && isEnvelope(line);
  }
  return undefined;
}

const codecForVersion = how === "codec" ? codecs() : undefined;
const judge = codecForVersion ? (line) => byCodec(codecForVersion, line) : bySchema;
const verdicts = instances.map((line) => [line.id, judge(line)]).filter(([, verdict]) => verdict !== undefined);
console.log(JSON.stringify(Object.fromEntries(verdicts)));
