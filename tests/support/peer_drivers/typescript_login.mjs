// A package's folder and the URL of our protected example go in; what the official TypeScript client, which logs in there,
// got comes out as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const { Client, StreamableHTTPClientTransport } = folder.includes("sdk")
  ? {
      ...(await load("@modelcontextprotocol/sdk/client/index.js")),
      ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
    }
  : await load("@modelcontextprotocol/client");

const kept = {};
let wanted;
const provider = {
  redirectUrl: "http://127.0.0.1:7/callback",
  clientMetadata: {
    client_name: "The official client",
    redirect_uris: ["http://127.0.0.1:7/callback"],
    grant_types: ["authorization_code", "refresh_token"],
    token_endpoint_auth_method: "none",
  },
  state: () => "a state",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  redirectToAuthorization: (to) => void (wanted = to),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
};

// What a person's browser does: cookies, redirects, forms.
const cookies = new Map();
async function browse(at, form) {
  const answer = await fetch(at, {
    method: form ? "POST" : "GET",
    body: form && new URLSearchParams(form),
    headers: { cookie: [...cookies].map((pair) => pair.join("=")).join("; ") },
    redirect: "manual",
  });
  for (const each of answer.headers.getSetCookie()) cookies.set(...each.split(";")[0].split("="));
  if (answer.status === 303) return browse(new URL(answer.headers.get("location"), at));
  return [at, await answer.text()];
}
const found = (pattern, page) => pattern.exec(page)[1].replaceAll("&amp;", "&");

const first = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
const refused = await new Client({ name: "driver", version: "1" }).connect(first).catch((fault) => fault);
const [signin] = await browse(wanted);
const [, page] = await browse(signin, { name: "ada", password: "lovelace" });
const ticket = found(/name="ticket" value="([^"]*)"/, page);
const [, onward] = await browse(found(/action="([^"]*)"/, page), { ticket, decision: "allow" });
const back = new URL(found(/http-equiv="refresh" content="0; url=([^"]*)"/, onward)).searchParams;
await first.finishAuth(folder.includes("sdk") ? back.get("code") : back);

const client = new Client({ name: "driver", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { authProvider: provider }));
const result = await client.callTool({ name: "add_note", arguments: { text: "tea" } });
await client.close();
console.log(
  JSON.stringify({
    refused: refused.constructor.name,
    said: result.content[0].text,
    scope: kept.tokens.scope,
    iss: back.get("iss"),
  }),
);
