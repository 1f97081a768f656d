import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { ClientRequests } from "./methods.js";
import { results, revision, style } from "./tables.js";
import { errorOf } from "./validate.js";

type Answer = { resolve: (result: any) => void; reject: (error: Error) => void; method: string };
const PREFIX = "io.modelcontextprotocol/";

/** A client of one server over stdio. It declares no capabilities, so that a server has nothing to ask. */
export class Client {
  readonly #answers = new Map<number, Answer>();
  readonly #process;
  #last = 0;

  private constructor(command: string, parameters: string[], private readonly info: { name: string; version: string }) {
    this.#process = spawn(command, parameters, { stdio: ["pipe", "pipe", "inherit"] });
    this.#process.on("error", (error) => this.#end(error));
    createInterface({ input: this.#process.stdout })
      .on("line", (line) => this.#receive(line))
      .on("close", () => this.#end(new Error("the server has ended")));
  }

  /** Starts a server, and begins as the version of the protocol wants it. */
  static async start(command: string, parameters: string[], info: { name: string; version: string }): Promise<Client> {
    const client = new Client(command, parameters, info);
    if (style === "handshake") {
      await client.#send("initialize", { protocolVersion: revision, capabilities: {}, clientInfo: info });
      client.#write({ method: "notifications/initialized" });
    }
    return client;
  }

  /** Sends a request, and returns its result, which is of the type that the schema has for it. */
  request<Method extends keyof ClientRequests>(
    method: Method, params: Omit<NonNullable<ClientRequests[Method]["params"]>, "_meta">,
  ): Promise<ClientRequests[Method]["result"]> {
    const meta = { [`${PREFIX}protocolVersion`]: revision, [`${PREFIX}clientInfo`]: this.info, [`${PREFIX}clientCapabilities`]: {} };
    return this.#send(method, style === "stateless" ? { ...params, _meta: meta } : params);
  }

  /** Ends the server. */
  close(): void {
    this.#process.stdin.end();
  }

  #send(method: string, params: object): Promise<any> {
    const id = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#answers.set(id, { resolve, reject, method });
      this.#write({ id, method, params });
    });
  }

  #write(message: object): void {
    this.#process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  #receive(line: string): void {
    const message = JSON.parse(line);
    const answer = "method" in message ? undefined : this.#answers.get(message.id);
    if (message.method === "ping") this.#write({ id: message.id, result: {} });
    if (answer === undefined) return;
    this.#answers.delete(message.id);
    const wrong = message.error ? `${message.error.message} (${message.error.code})` : errorOf(results[answer.method]!, message.result);
    if (wrong === undefined) answer.resolve(message.result);
    else answer.reject(new Error(wrong));
  }

  #end(error: Error): void {
    for (const answer of this.#answers.values()) answer.reject(error);
    this.#answers.clear();
  }
}
