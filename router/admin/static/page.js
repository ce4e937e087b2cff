// The live page: asks for /admin/status once a second and draws it. Everything is put in as text, never as markup.
"use strict";

const EVERY = 1000;
const KEPT = 120; // two minutes of N
const history = [];
const $ = (id) => document.getElementById(id);

const seconds = (value) =>
  value === null || value === undefined ? "–" : value < 1 ? `${(value * 1000).toFixed(0)} ms` : `${value.toFixed(2)} s`;
const number = (value, digits = 0) => (value === null || value === undefined ? "–" : value.toFixed(digits));
const duration = (value) =>
  value < 90 ? `${value.toFixed(0)} s` : value < 5400 ? `${(value / 60).toFixed(0)} min` : `${(value / 3600).toFixed(1)} h`;

function cell(text, className) {
  const made = document.createElement("td");
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function row(cells) {
  const made = document.createElement("tr");
  made.append(...cells);
  return made;
}

function shape(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawPlot(policy) {
  const width = $("plot").clientWidth || 600, height = 180, left = 40, bottom = 160, top = 10;
  $("plot").setAttribute("viewBox", `0 0 ${width} ${height}`);
  const most = Math.max(4, policy.high || 0, ...history.map((one) => one.n)) * 1.15;
  const x = (index) => left + ((width - left) * (index + KEPT - history.length)) / (KEPT - 1);
  const y = (n) => bottom - ((bottom - top) * n) / most;
  const parts = [];
  for (let begin = 0, end = 0; begin < history.length - 1; begin = end) {
    for (end = begin + 1; end < history.length - 1 && history[end].path === history[begin].path;) end += 1;
    parts.push(shape("rect", {
      class: `on-${history[begin].path}`, x: x(begin), width: x(end) - x(begin), y: top, height: bottom - top,
    }));
  }
  for (const bound of ["high", "low"]) {
    if (policy[bound]) {
      parts.push(shape("line", { class: bound, x1: left, x2: width, y1: y(policy[bound]), y2: y(policy[bound]) }));
      parts.push(shape("text", { x: 0, y: y(policy[bound]) + 4 }, `${bound} `));
    }
  }
  const points = history.map((one, index) => `${x(index)},${y(one.n)}`).join(" ");
  parts.push(shape("polyline", { class: "n", points, "vector-effect": "non-scaling-stroke" }));
  parts.push(shape("text", { x: left, y: height - 4 }, "2 minutes ago"));
  parts.push(shape("text", { x: width, y: height - 4, "text-anchor": "end" }, "now"));
  $("plot").replaceChildren(...parts);
}

function drawPaths(pair) {
  $("paths").replaceChildren(...Object.entries(pair.paths).map(([name, path]) => {
    const state = path.drained ? "drained" : path.up ? "up" : path.breaker === "closed" ? "down" : `breaker ${path.breaker.replace("_", " ")}`;
    const says = path.running === null ? "–" : `${path.running} running, ${path.waiting ?? "–"} waiting`
      + (path.accept_length ? `, accept length ${number(path.accept_length, 2)}` : "");
    return row([
      cell(name === pair.active_path ? `▶ ${name}` : name, name), cell(path.active), cell(number(path.tokens_per_second)),
      cell(seconds(path.ttft_p50)), cell(seconds(path.ttft_p99)), cell(state, path.up && !path.drained ? "good" : "bad"), cell(says),
    ]);
  }));
}

function drawSwitches(pair) {
  const rows = pair.switches.slice(-12).reverse().map((one) =>
    row([cell(new Date(one.at * 1000).toLocaleTimeString()), cell(`${one.from} → ${one.to}`, one.to), cell(one.n), cell(one.why || one.reason)]));
  $("switches").replaceChildren(...(rows.length ? rows : [row([cell("none yet")])]));
}

function draw(status) {
  const pair = status.pairs[0];
  history.push({ n: pair.n, path: pair.active_path });
  if (history.length > KEPT) history.shift();
  $("version").textContent = status.version;
  $("active").textContent = pair.active_path;
  $("active").className = pair.active_path;
  $("since").textContent = `for ${duration(pair.since_seconds)}`;
  $("why").textContent = pair.why || "";
  $("pinned").hidden = !pair.pin;
  if (pair.pin) {
    const left = pair.pin.seconds_left === null ? "until it is taken away" : `for another ${duration(pair.pin.seconds_left)}`;
    $("pinned").textContent = `pinned to ${pair.pin.path} ${left}: ${pair.pin.reason}`;
  }
  const problems = [...(status.problems || []), ...(pair.problems || [])];
  $("problems").hidden = problems.length === 0;
  $("problems").replaceChildren(...problems.map((text) => Object.assign(document.createElement("li"), { textContent: text.text || text })));
  const bounds = pair.policy.high ? `, high ${pair.policy.high}, low ${pair.policy.low}` : "";
  $("plot-text").textContent = `${pair.n} in flight, ${pair.queued} of them in the queue${bounds}; `
    + `both engines at work together for ${duration(pair.mixed_seconds)} in all`;
  drawPlot(pair.policy);
  drawPaths(pair);
  drawSwitches(pair);
  $("connection").textContent = status.draining ? "draining" : "live";
  $("connection").className = status.draining ? "bad" : "good";
}

async function poll() {
  try {
    const answer = await fetch("/admin/status", { cache: "no-store" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    draw(await answer.json());
  } catch (error) {
    $("connection").textContent = `no answer from the router (${error.message})`;
    $("connection").className = "bad";
  } finally {
    setTimeout(poll, EVERY);
  }
}

async function change(method, body) {
  const form = $("pin");
  const headers = { "content-type": "application/json" };
  if (form.token.value) headers.authorization = `Bearer ${form.token.value}`;
  const answer = await fetch("/admin/pin", { method, headers, body: body && JSON.stringify(body) });
  const said = await answer.json();
  $("pin-answer").textContent = answer.ok ? (method === "DELETE" ? "unpinned" : "pinned") : said.error.message;
  $("pin-answer").className = answer.ok ? "good" : "bad";
}

$("pin").addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  change("POST", { path: form.path.value, reason: form.reason.value, seconds: Number(form.minutes.value) * 60 });
});
$("unpin").addEventListener("click", () => change("DELETE"));
poll();
