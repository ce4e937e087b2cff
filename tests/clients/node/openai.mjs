// openai-node: the same cases as its sibling in Python; prints what the SDK made of the answers as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [settings, casesFile, packages] = process.argv.slice(2);
const { OpenAI } = createRequire(`${packages}/package.json`)("openai");
const { model, long, targets } = JSON.parse(settings);
const cases = JSON.parse(readFileSync(casesFile, "utf8"));
const messages = [{ role: "user", content: "hello world" }];
const parameters = { type: "object", properties: { city: { type: "string", maxLength: 8 } }, required: ["city"] };
const weather = { name: "get_weather", description: "The weather of a city", parameters };
const tools = [{ type: "function", function: weather }];
const varying = new Set(["id", "created", "created_at", "completed_at", "e2e_latency", "system_fingerprint"]);

function masked(value) {
  if (Array.isArray(value)) return value.map(masked);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !varying.has(key))
      .map(([key, inner]) => [key, masked(inner)]),
  );
}

function failure(problem) {
  return {
    error: problem.constructor.name,
    message: problem.message,
    status: problem.status ?? null,
    code: problem.code ?? null,
    param: problem.param ?? null,
    type: problem.type ?? null,
    body: masked(problem.error ?? null),
  };
}

function bodyOf({ call, body = {}, extra = {}, tools: wanted }) {
  const common = { model, ...body, ...extra };
  if (call === "chat") Object.assign(common, { messages, temperature: 0, ignore_eos: true });
  if (call === "completions") Object.assign(common, { temperature: 0, ignore_eos: true });
  if (wanted) common.tools = tools;
  return common;
}

async function merged(stream) {
  const said = { texts: {}, ends: {}, roles: {}, tools: {}, usage: null };
  for await (const chunk of stream) {
    said.usage = chunk.usage ?? said.usage;
    for (const { index, delta, text, finish_reason } of chunk.choices) {
      said.texts[index] = (said.texts[index] ?? "") + (delta?.content ?? text ?? "");
      said.roles[index] ??= delta?.role ?? null;
      said.ends[index] = finish_reason ?? said.ends[index] ?? null;
      for (const call of delta?.tool_calls ?? []) {
        const heard = (said.tools[`${index}.${call.index}`] ??= { name: "", arguments: "" });
        heard.name += call.function?.name ?? "";
        heard.arguments += call.function?.arguments ?? "";
      }
    }
  }
  return said;
}

async function ask(client, one) {
  if (one.call === "models") return (await client.models.list()).data;
  if (one.call === "model") return client.models.retrieve(one.id);
  const body = bodyOf(one);
  if (one.call === "embeddings") return client.embeddings.create(body);
  if (one.call === "responses") return client.responses.create(body);
  const route = one.call === "chat" ? client.chat.completions : client.completions;
  const answer = await route.create(body);
  return body.stream ? merged(answer) : answer;
}

async function idle(engine) {
  const deadline = Date.now() + 20_000;
  while (Date.now() < deadline) {
    const load = (await (await fetch(`${engine}/v1/loads?include=core`)).json()).loads[0];
    if (load.num_running_reqs === 0 && load.num_waiting_reqs === 0) return { idle: true };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return { idle: false };
}

async function abort(client, engine) {
  const request = { model, messages, max_tokens: long, stream: true, ignore_eos: true };
  const stream = await client.chat.completions.create(request);
  for await (const chunk of stream) if (chunk.choices[0]?.delta?.content) break;
  stream.controller.abort();
  return idle(engine);
}

const seen = {};
for (const { name, url, engine } of targets) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "unused", maxRetries: 0, timeout: 90_000 });
  seen[name] = {};
  for (const [title, one] of [...Object.entries(cases), ["abort", null]]) {
    try {
      seen[name][title] = masked(await (one ? ask(client, one) : abort(client, engine)));
    } catch (problem) {
      seen[name][title] = failure(problem);
    }
  }
}
console.log(JSON.stringify(seen));
