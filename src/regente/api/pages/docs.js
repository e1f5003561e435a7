// Renders openapi.json and lets one try it. Everything becomes text nodes: nothing in the document is taken for HTML.
"use strict";

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

let doc = {};

function resolve(thing) {
  if (!thing || !thing.$ref) return thing || {};
  return thing.$ref.slice(2).split("/").reduce((place, part) => place[part], doc);
}

function typeOf(schema) {
  if (!schema) return "any";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const several = schema.anyOf || schema.oneOf;
  if (several) return several.map(typeOf).join(" | ");
  if (schema.type === "array") return `${typeOf(schema.items)}[]`;
  return schema.format ? `${schema.type} (${schema.format})` : schema.type || "any";
}

function exampleOf(schema, depth = 0) {
  const found = resolve(schema);
  if (found.example !== undefined) return found.example;
  if (found.examples && found.examples.length) return found.examples[0];
  if (found.default !== undefined && found.default !== null) return found.default;
  if (found.const !== undefined) return found.const;
  if (found.enum) return found.enum[0];
  const several = found.anyOf || found.oneOf;
  if (several) return exampleOf(several.find((one) => one.type !== "null") || several[0], depth);
  if (depth > 4) return null;
  if (found.type === "array") return [exampleOf(found.items, depth + 1)];
  if (found.properties) {
    const entries = Object.entries(found.properties).filter(([name]) => (found.required || []).includes(name) || depth === 0);
    return Object.fromEntries(entries.map(([name, one]) => [name, exampleOf(one, depth + 1)]));
  }
  return { string: "text", integer: 1, number: 1.5, boolean: true, object: {}, null: null }[found.type] ?? null;
}

function fieldsTable(schema) {
  const found = resolve(schema);
  if (!found.properties) return make("p", {}, typeOf(schema));
  const rows = Object.entries(found.properties).map(([name, one]) =>
    make("tr", {}, make("td", {}, make("code", {}, name)), make("td", {}, typeOf(one)),
      make("td", {}, (found.required || []).includes(name) ? "required" : ""), make("td", {}, one.description || resolve(one).description || "")));
  return make("table", {}, ...rows);
}

function bodySchema(operation) {
  const content = operation.requestBody && resolve(operation.requestBody).content;
  return content && content["application/json"] ? content["application/json"].schema : null;
}

function answers(operation) {
  const rows = Object.entries(operation.responses || {}).map(([status, raw]) => {
    const one = resolve(raw);
    const content = one.content ? Object.entries(one.content)[0] : null;
    return make("tr", {}, make("td", {}, status), make("td", {}, one.description || ""),
      make("td", {}, content && content[1].schema ? typeOf(content[1].schema) : content ? content[0] : ""));
  });
  return make("table", {}, ...rows);
}

async function csrfToken() {
  const answer = await fetch("api/session");
  return answer.ok ? (await answer.json()).csrf_token : null;
}

function tryIt(path, method, operation) {
  const inputs = (operation.parameters || []).map(resolve).map((one) => [one, make("input", { ariaLabel: one.name, placeholder: one.name })]);
  const schema = bodySchema(operation);
  const body = schema ? make("textarea", { ariaLabel: "body", value: JSON.stringify(exampleOf(schema), null, 2) }) : null;
  const output = make("pre", { tabIndex: 0, hidden: true });
  const form = make("form", {}, ...inputs.map(([one, input]) => make("label", {}, `${one.name} (${one.in})`, input)), body,
    make("button", { type: "submit" }, "Send"), output);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    let target = path.slice(1);
    for (const [one, input] of inputs) {
      if (one.in === "path") target = target.replace(`{${one.name}}`, encodeURIComponent(input.value));
      else if (input.value !== "") input.value.split(",").forEach((value) => query.append(one.name, value));
    }
    const headers = method === "get" ? {} : { "content-type": "application/json", "x-csrf-token": (await csrfToken()) || "" };
    const answer = await fetch(query.size ? `${target}?${query}` : target, { method: method.toUpperCase(), headers, body: body ? body.value : undefined });
    const text = await answer.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* it is no JSON */ }
    output.textContent = `${answer.status} ${answer.statusText}\n${shown.slice(0, 100000)}`;
    output.hidden = false;
  });
  return make("details", {}, make("summary", {}, "Try it"), form);
}

function operationNode(path, method, operation) {
  const parameters = (operation.parameters || []).map(resolve);
  const schema = bodySchema(operation);
  const success = Object.entries(operation.responses || {}).find(([status]) => status.startsWith("2"));
  const content = success && resolve(success[1]).content;
  const json = content && content["application/json"];
  const head = make("summary", {}, make("span", { className: `method ${method}` }, method), make("span", { className: "path" }, path), ` ${operation.summary || ""}`,
    make("span", { className: "role" }, operation["x-required-role"] || "open"));
  const node = make("details", { id: operation.operationId }, head, make("p", {}, operation.description || ""));
  if (parameters.length) {
    node.append(make("h3", {}, "Parameters"), make("table", {}, ...parameters.map((one) =>
      make("tr", {}, make("td", {}, make("code", {}, one.name)), make("td", {}, one.in), make("td", {}, typeOf(one.schema)),
        make("td", {}, one.required ? "required" : ""), make("td", {}, one.description || "")))));
  }
  if (schema) node.append(make("h3", {}, "Body"), fieldsTable(schema), make("pre", { tabIndex: 0 }, JSON.stringify(exampleOf(schema), null, 2)));
  node.append(make("h3", {}, "Answers"), answers(operation));
  if (json && json.schema) node.append(make("pre", { tabIndex: 0 }, JSON.stringify(exampleOf(json.schema), null, 2)));
  node.append(tryIt(path, method, operation));
  node.dataset.words = `${method} ${path} ${operation.summary || ""}`.toLowerCase();
  return node;
}

async function show() {
  const answer = await fetch("openapi.json");
  doc = await answer.json();
  document.getElementById("title").textContent = `${doc.info.title} ${doc.info.version}`;
  document.getElementById("about").textContent = doc.info.description || "";
  const main = document.getElementById("operations");
  main.replaceChildren();
  for (const tag of doc.tags || []) {
    const section = make("section", { id: `tag-${tag.name}` }, make("h2", {}, tag.name), make("p", {}, tag.description || ""));
    for (const [path, item] of Object.entries(doc.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        if ((operation.tags || []).includes(tag.name)) section.append(operationNode(path, method, operation));
      }
    }
    main.append(section);
    document.getElementById("tags").append(make("a", { href: `#tag-${tag.name}` }, tag.name));
  }
  const linked = location.hash && document.getElementById(location.hash.slice(1));
  if (linked) { linked.open = true; linked.scrollIntoView(); }
}

document.getElementById("search").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  for (const node of document.querySelectorAll("main > section > details")) node.hidden = !node.dataset.words.includes(wanted);
});
show();
