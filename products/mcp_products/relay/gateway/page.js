"use strict";
const SECONDS = 1;
const byId = (id) => document.getElementById(id);

// All text of servers is inserted as text.
function element(tag, text = "", kind = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString();
const number = (value) => value === undefined || value === null ? "" : value.toLocaleString();

function card(server) {
  const made = element("article");
  const head = element("h3", server.name + " ");
  head.append(element("span", server.state, server.state));
  made.append(head);
  if (server.circuit !== "closed") made.append(element("p", `circuit ${server.circuit}`, "failed"));
  if (server.failure) made.append(element("p", server.failure, "failed"));
  made.append(element("p", `${number(server.calls)} calls, ${number(server.failed)} failed, ${number(server.refused)} refused, ${number(server.seconds)} s`));
  if (server.tokens.now) made.append(element("p", `about ${number(server.tokens.now)} tokens before the first word; with shorter descriptions ${number(server.tokens.shorter_descriptions)}, as signatures ${number(server.tokens.signatures)}`));
  const kinds = Object.entries(server.lists);
  if (!kinds.length) made.append(element("p", "nothing was listed yet"));
  for (const [kind, names] of kinds) {
    const list = element("p", `${kind.replace("_", " ")}: `);
    list.append(element("span", names.join(", ") || "none", "names"));
    made.append(list);
  }
  return made;
}

function row(call) {
  const made = element("tr");
  const outcome = call.outcome ?? "running";
  const milliseconds = call.seconds === undefined ? "" : (call.seconds * 1000).toFixed(1);
  for (const text of [clock(call.time), call.upstream, call.kind, call.name]) made.append(element("td", text));
  made.append(element("td", outcome, outcome), element("td", milliseconds, "number"), element("td", number(call.size), "number"));
  return made;
}

function costs(state) {
  const sum = (name) => state.upstreams.reduce((total, server) => total + (server.tokens[name] ?? 0), 0);
  if (!sum("now")) return "";
  if (state.code_mode) return `Code mode: a model reads about 180 tokens before the first word, instead of ${number(sum("now"))}.`;
  return `A model reads about ${number(sum("now"))} tokens before the first word; with shorter descriptions ${number(sum("shorter_descriptions"))}, as signatures ${number(sum("signatures"))}, with code_mode = true 180.`;
}

function show(state) {
  document.title = byId("name").textContent = state.name;
  byId("costs").textContent = costs(state);
  byId("servers").replaceChildren(...state.upstreams.map(card));
  byId("alarms").hidden = !state.alarms.length;
  byId("alarms").querySelector("ul").replaceChildren(
    ...state.alarms.map(([server, kind, id, reason]) => element("li", `${id} of ${server} (${kind.replace("_", " ")}) ${reason}`, "failed")));
  byId("calls").replaceChildren(...[...state.running].reverse().map(row), ...state.calls.map(row));
  const losses = Object.entries(state.losses).map(([rule, count]) => element("li", `${number(count)} × ${rule}`));
  byId("losses").replaceChildren(...(losses.length ? losses : [element("li", "none")]));
  const lines = state.log.map((line) => element("li", `${clock(line.time)} ${line.level}: ${line.text}`));
  byId("log").replaceChildren(...(lines.length ? lines : [element("li", "empty")]));
}

let last = "";
async function update() {
  try {
    const response = await fetch(location.pathname.replace(/\/$/, "") + "/data", {cache: "no-store"});
    if (!response.ok) throw new Error(`status ${response.status}`);
    const text = await response.text();
    if (text !== last) show(JSON.parse(text));  // What is selected stays selected as long as nothing changes.
    last = text;
    byId("status").textContent = "live";
  } catch (error) {
    byId("status").textContent = `no connection: ${error.message}`;
  }
  setTimeout(update, SECONDS * 1000);
}
update();
