"use strict";
// Everything a schema says is put into the page as text, never as markup.
const all = JSON.parse(document.getElementById("content").textContent);
const ids = all.revisions.map((each) => each.id);
const newest = ids[ids.length - 1];
const byId = new Map(all.revisions.map((each) => [each.id, each]));
const view = document.getElementById("view");
const search = document.getElementById("search");
const themeButton = document.getElementById("theme");
const SEVERITIES = ["breaking", "deprecated", "compatible"];
const LIMIT = 80;

// An element with its attributes and what is in it: elements, or texts.
function el(name, attributes, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...inside.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false && each !== ""));
  return made;
}
const link = (hash, ...inside) => el("a", { href: hash }, ...inside);
const path = (...parts) => "#/" + parts.map(encodeURIComponent).join("/");
const code = (...inside) => el("code", {}, ...inside);
const faint = (...inside) => el("span", { class: "faint" }, ...inside);
const tag = (text, kind) => el("span", { class: "tag " + (kind || "") }, text);
// A sentence, with what stands in backticks as code; and a name that may break where its parts meet.
const prose = (text) => text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? code(part) : part));
const breakable = (name) => name.split(/(?<=[/_.])|(?=[A-Z][a-z])/).flatMap((part, at) => (at ? [el("wbr"), part] : [part]));
const table = (kind, heads, rows) =>
  el("div", { class: "scroll", tabindex: 0 },
    el("table", { class: kind },
      el("thead", {}, el("tr", {}, heads.map((each) => el("th", { scope: "col" }, each)))),
      el("tbody", {}, rows)));

function record(revision, name) {
  const types = byId.get(revision).types;
  return Object.hasOwn(types, name) ? all.records[types[name]] : null;
}
function typeLink(revision, name) {
  return record(revision, name) ? link(path("types", revision, name), name) : document.createTextNode(name);
}
const written = (revision, parts) =>
  code(parts.map((part) => (typeof part === "string" ? part : typeLink(revision, part.ref))));

// ---- methods --------------------------------------------------------------------------------------------------------

function methods() {
  const sides = [["client", "Sent by the client"], ["server", "Sent by the server"]];
  return [
    el("h1", {}, "Methods"),
    el("p", { class: "faint" }, "● as in the revision before, ◆ new or changed. A method leads to its params and results."),
    sides.map(([side, says]) => [el("h2", {}, says), matrix(all.methods.filter((each) => each.from === side))]),
  ];
}
// An id that may break after each of its parts, in a narrow window.
const inParts = (id) => id.split("-").map((part, at) => (at ? ["-", el("wbr"), part] : part));
function matrix(rows) {
  return table("matrix", ["Method", ...ids.map(inParts)], rows.map((each) =>
    el("tr", {}, el("th", { scope: "row" }, link(path("methods", each.from, each.method), code(breakable(each.method))), " ",
      each.kind === "request" ? null : tag(each.kind)),
    ids.map((id, at) => cell(each, id, ids[at - 1])))));
}
function cell(each, id, before) {
  const row = each.in[id];
  if (!row) return el("td", { class: "none", title: `not in ${id}` }, "–");
  if (row.deprecated) return el("td", { class: "deprecated" }, "deprecated");
  const same = !before || JSON.stringify(each.in[before]) === JSON.stringify(row);
  return el("td", { title: row.result ? `→ ${row.result}` : each.kind }, same ? "●" : "◆");
}
function method(side, name) {
  const each = all.methods.find((one) => one.from === side && one.method === name);
  if (!each) return missing(name);
  const there = ids.filter((id) => each.in[id]);
  const lines = [
    ["Message", (row, id) => typeLink(id, row.message)],
    ["Params", (row, id) => row.params && [typeLink(id, row.params), row.optional && faint(" optional")]],
    ["Result", (row, id) => row.result && typeLink(id, row.result)],
    ["Before that", (row, id) => row.interim.length > 0 && row.interim.map((one) => el("div", {}, typeLink(id, one)))],
    ["Capability", (row) => row.capability && code(row.capability)],
  ];
  return [
    el("h1", { class: "code" }, each.method),
    el("p", {}, tag(each.kind), " ", tag(`sent by the ${side}`)),
    el("p", {}, prose(each.doc)),
    table("rows", ["", ...there], lines.map(([label, show]) =>
      el("tr", {}, el("th", { scope: "row" }, label), there.map((id) => el("td", {}, show(each.in[id], id) || faint("–")))))),
  ];
}

// ---- types ----------------------------------------------------------------------------------------------------------

function types(revision, name) {
  if (!byId.has(revision)) return missing(revision);
  const names = Object.keys(byId.get(revision).types);
  const chosen = name || names[0];
  const list = el("div", { class: "list", "aria-label": "Types" }, names.map((each) =>
    el("a", { href: path("types", revision, each), "aria-current": each === chosen && "true" }, each)));
  return el("div", { class: "split" }, list, el("section", {}, type(revision, chosen)));
}
function chips(revision, name) {
  return el("div", { class: "chips" }, ids.map((id, at) => {
    const own = byId.get(id).types[name];
    if (!record(id, name)) return el("span", { class: "chip gone" }, id);
    const before = at && record(ids[at - 1], name) ? byId.get(ids[at - 1]).types[name] : null;
    return el("a", { class: "chip", href: path("types", id, name), "aria-current": id === revision && "true" }, id,
      before !== null && before !== own && el("span", { class: "dot", title: "changed" }, " ◆"));
  }));
}
function type(revision, name) {
  const each = record(revision, name);
  if (!each) return [missing(name), chips(revision, name)];
  const used = uses(revision).get(name) || [];
  return [
    el("h1", { class: "code" }, name, each.deprecated && [" ", tag("deprecated", "deprecated")]),
    el("p", {}, each.doc ? prose(each.doc) : faint("No description.")),
    chips(revision, name),
    each.extends && each.extends.length > 0 &&
      el("p", {}, faint("Extends "), each.extends.map((base, at) => [at ? ", " : "", typeLink(revision, base)])),
    each.fields ? fields(revision, each) : el("p", {}, written(revision, each.type)),
    el("h2", {}, `Used by ${used.length || "nothing"}`),
    el("ul", { class: "uses" }, used.map(([at, hash]) => el("li", {}, link(hash, code(at))))),
  ];
}
function fields(revision, each) {
  if (!each.fields.length) return el("p", { class: "faint" }, "No fields of its own; any property may be there.");
  return table("fields", ["Field", "Type", "What it is"], each.fields.map((field) =>
    el("tr", {},
      el("td", {}, code(field.name), field.required ? null : faint("?"), " ", field.deprecated && tag("deprecated", "deprecated")),
      el("td", { class: "mid" }, written(revision, field.type)),
      el("td", { class: "wide" }, field.doc ? prose(field.doc) : faint("–")))));
}

// Who refers to each type of a revision: types by their fields, and methods.
const known = new Map();
function uses(revision) {
  if (known.has(revision)) return known.get(revision);
  const found = new Map();
  const note = (name, at, hash) => found.set(name, [...(found.get(name) || []), [at, hash]]);
  for (const name of Object.keys(byId.get(revision).types)) {
    const each = record(revision, name);
    const hash = path("types", revision, name);
    for (const base of each.extends || []) note(base, `${name} extends it`, hash);
    for (const field of each.fields || [{ name: "", type: each.type }]) {
      const at = field.name ? `${name}.${field.name}` : name;
      for (const ref of new Set(field.type.filter((part) => typeof part !== "string").map((part) => part.ref))) note(ref, at, hash);
    }
  }
  for (const each of all.methods) {
    const row = each.in[revision];
    if (!row) continue;
    for (const name of [row.params, row.result, ...row.interim]) {
      if (name) note(name, each.method, path("methods", each.from, each.method));
    }
  }
  known.set(revision, found);
  return found;
}

// ---- changes --------------------------------------------------------------------------------------------------------

let shown = new Set(SEVERITIES);
function changes(one, other) {
  const [older, newer] = [one, other].sort((a, b) => ids.indexOf(a) - ids.indexOf(b));
  const found = all.changes[`${older} ${newer}`] || [];
  const worst = (each) => SEVERITIES.find((severity) => each[4] === severity || each[5] === severity);
  const body = el("div", {});
  const draw = () => body.replaceChildren(side(older, newer, found.filter((each) => shown.has(worst(each)))));
  const boxes = SEVERITIES.map((severity) => {
    const box = el("input", { type: "checkbox", checked: shown.has(severity), value: severity });
    box.addEventListener("change", () => { box.checked ? shown.add(severity) : shown.delete(severity); draw(); });
    const count = found.filter((each) => worst(each) === severity).length;
    return el("label", {}, box, el("span", { class: severity }, `${count} ${severity}`));
  });
  draw();
  return [
    el("h1", {}, "Changes"),
    el("div", { class: "bar" }, pick("older", older, newer), "→", pick("newer", newer, older), boxes),
    body,
  ];
}
function pick(id, value, other) {
  const made = el("select", { id, "aria-label": `The ${id} revision` },
    ids.filter((each) => each !== other).map((each) => el("option", { value: each, selected: each === value }, each)));
  made.addEventListener("change", () => { location.hash = path("changes", ...(id === "older" ? [made.value, other] : [other, made.value])); });
  return made;
}
function side(older, newer, rows) {
  if (!rows.length) return el("p", { class: "faint" }, "Nothing of that kind changed.");
  return table("changes", ["Where", older, newer, "Client", "Server"], rows.map(([rule, at, before, after, client, server, removable]) =>
    el("tr", {},
      el("td", { class: "mid" }, code(place(older, newer, at)), el("div", { class: "faint", title: all.rules[rule] }, rule, at.endsWith(" client)") && " (server to client)"),
        removable && el("div", { class: "deprecated" }, `may be removed from ${removable}`)),
      el("td", { class: before ? "mid before" : "mid none", "data-label": older }, before ? code(before) : faint("–")),
      el("td", { class: after ? "mid after" : "mid none", "data-label": newer }, after ? code(after) : faint("–")),
      el("td", { "data-label": "Client" }, el("span", { class: client }, client)),
      el("td", { "data-label": "Server" }, el("span", { class: server }, server)))));
}
function place(older, newer, at) {
  const each = all.methods.find((one) => at.startsWith(`${one.method} (${one.from} to `));
  if (each) return [link(path("methods", each.from, each.method), breakable(each.method))];
  const name = at.split(".")[0];
  const revision = [newer, older].find((each) => record(each, name));
  return revision ? [link(path("types", revision, name), breakable(name)), breakable(at.slice(name.length))] : at;
}

// ---- search ---------------------------------------------------------------------------------------------------------

function results(text) {
  const wanted = text.toLowerCase();
  const hits = [];
  const look = (rank, label, hash, doc, where) => {
    const at = label.toLowerCase().indexOf(wanted);
    if (at >= 0) hits.push([rank + (at ? 1 : 0) + label.length / 1000, label, at, hash, doc, where]);
  };
  for (const each of all.methods) look(0, each.method, path("methods", each.from, each.method), each.doc, `${each.kind}, sent by the ${each.from}`);
  const seen = new Set();
  for (const id of [...ids].reverse()) {
    for (const name of Object.keys(byId.get(id).types)) {
      const each = record(id, name);
      const hash = path("types", id, name);
      if (!seen.has(name)) look(2, name, hash, each.doc, `type, ${id}`);
      seen.add(name);
      for (const field of each.fields || []) {
        const label = `${name}.${field.name}`;
        if (!seen.has(label) && field.name.toLowerCase().includes(wanted)) look(4, label, hash, field.doc, `field, ${id}`);
        seen.add(label);
      }
    }
  }
  hits.sort((one, other) => one[0] - other[0]);
  const items = hits.slice(0, LIMIT).map(([, label, at, hash, doc, where]) =>
    el("li", {}, link(hash, code(label.slice(0, at), el("mark", {}, label.slice(at, at + wanted.length)), label.slice(at + wanted.length))),
      " ", tag(where), el("span", { class: "faint" }, prose(doc))));
  const more = hits.length > LIMIT ? `, the first ${LIMIT} shown` : "";
  return [el("h1", {}, `${hits.length} for “${text}”${more}`), el("ul", { class: "hits" }, items)];
}

// ---- the page -------------------------------------------------------------------------------------------------------

const missing = (name) => el("h1", { class: "code" }, name, " ", faint("is not in this revision"));
function draw() {
  const text = search.value.trim();
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  const [room, one, other] = parts;
  const previous = ids[Math.max(0, ids.length - 2)];
  let made;
  if (text) made = results(text);
  else if (room === "types") made = types(one || newest, other);
  else if (room === "changes") made = changes(byId.has(one) ? one : previous, byId.has(other) ? other : newest);
  else made = room === "methods" && one ? method(one, other) : methods();
  const list = view.querySelector(".list");
  const at = list ? list.scrollTop : null;
  view.replaceChildren(...[made].flat(Infinity).filter(Boolean));
  const fresh = view.querySelector(".list");
  const current = fresh && fresh.querySelector("[aria-current]");
  if (fresh && at !== null) fresh.scrollTop = at;
  else if (current) fresh.scrollTop = current.offsetTop - fresh.offsetTop - fresh.clientHeight / 3;
  for (const each of document.querySelectorAll("nav a")) {
    const here = !text && each.getAttribute("href") === `#/${room || "methods"}`;
    here ? each.setAttribute("aria-current", "page") : each.removeAttribute("aria-current");
  }
}

const THEMES = ["auto", "light", "dark"];
function theme(wanted) {
  const chosen = THEMES.includes(wanted) ? wanted : "auto";
  document.documentElement.dataset.theme = chosen;
  themeButton.textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[chosen];
  themeButton.setAttribute("aria-label", `Theme: ${chosen}`);
  try { localStorage.setItem("theme", chosen); } catch { /* A page from a file may have no storage. */ }
}
let remembered = null;
try { remembered = localStorage.getItem("theme"); } catch { /* The same. */ }
theme(remembered);
themeButton.addEventListener("click", () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length]));
search.addEventListener("input", draw);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) { event.preventDefault(); search.focus(); }
  if (event.key === "Escape" && document.activeElement === search) { search.value = ""; draw(); }
});
window.addEventListener("hashchange", () => { search.value = ""; draw(); window.scrollTo(0, 0); });
document.addEventListener("click", (event) => {
  const to = event.target.closest && event.target.closest("a");
  if (to && to.hash === location.hash && search.value) { search.value = ""; draw(); }
});
draw();
