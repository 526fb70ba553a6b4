"use strict";

// The page draws /stats.json once per second. It sends no other request. An element with a
// figure has its path in /stats.json and its value as data attributes.
const interval = 1000, limit = 1000, points = 60;
const bounds = ["10 µs", "30 µs", "100 µs", "300 µs", "1 ms", "3 ms", "10 ms", "30 ms", "100 ms", "300 ms", "1 s", "3 s", "10 s", "30 s", "100 s"];
const rates = []; // for each second, bytes per second of each series
let last = null;

// A mount draws bytes by source, a server by API. The colour of a series is its place in the list.
const mount = {
  noun: "mount", throughput: "Throughput by source", latency: "Latency of reads", requests: "Messages of the kernel",
  series: ["memory", "disk", "origin", "catalog", "passthrough"],
  bytes: (s, name) => s.bytes[name],
  counts: (s) => [s.operations.read?.latency],
  rows: (s) => Object.keys(s.operations).map((op) => [op, `operations.${op}.latency.count`, `operations.${op}.errors`, s.operations[op].latency]),
  columns: ["", "messages", "errors", "mean"],
};
const server = {
  noun: "server", throughput: "Throughput by API", latency: "Latency of answers", requests: "Requests of clients",
  series: ["hub", "cas", "xorbs", "store"],
  bytes: (s, name) => s.server.routes[name].bytes,
  counts: (s) => Object.values(s.server.routes).map((r) => r.latency),
  rows: (s) => Object.entries(s.server.routes).map(([name, r]) => [name, ...["requests", "bytes", "errors", "not_found", "lost"].map((f) => `server.routes.${name}.${f}`), r.latency]),
  columns: ["", "requests", "bytes", "errors", "404", "lost", "mean"],
};
const kindOf = (s) => s.server ? server : mount;

const byId = (id) => document.getElementById(id);
const valueOf = (s, path) => path.split(".").reduce((o, key) => o?.[key], s);

function size(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; Math.abs(n) >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i === 0 ? String(Math.round(n)) : n.toFixed(1)) + " " + units[i];
}

function duration(seconds) {
  if (seconds < 1e-3) return Math.round(seconds * 1e6) + " µs";
  return seconds < 1 ? (seconds * 1e3).toFixed(1) + " ms" : seconds.toFixed(1) + " s";
}

const mean = (latency) => latency.count ? duration(latency.seconds / latency.count) : "-";

function element(name, content, classes) {
  const e = document.createElement(name);
  e.append(...[content].flat());
  if (classes) e.className = classes;
  return e;
}

function text(id, value, isBad) {
  byId(id).textContent = value;
  byId(id).classList.toggle("bad", Boolean(isBad));
}

// figure returns an element that shows the figure at a path.
function figure(name, s, path, format) {
  const value = valueOf(s, path), e = element(name, format ? format(value) : String(value));
  e.dataset.figure = path;
  e.dataset.value = value;
  return e;
}

// list fills a dl with rows of a name, a path, and maybe a format.
function list(id, s, rows) {
  byId(id).replaceChildren(...rows.flatMap(([name, path, format]) => [element("dt", name), figure("dd", s, path, format)]));
}

function bar(x, y, width, height, series, title) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [k, v] of Object.entries({ x, y, width, height, class: "s" + series })) e.setAttribute(k, v);
  if (title) {
    const t = document.createElementNS("http://www.w3.org/2000/svg", "title");
    t.textContent = title;
    e.append(t);
  }
  return e;
}

function draw(id, width, bars) {
  const svg = byId(id);
  svg.setAttribute("viewBox", `0 0 ${width} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(...bars);
}

// addRates appends the rates since the last figures. Another process starts anew.
function addRates(s, kind) {
  if (last && (last.process.pid !== s.process.pid || last.process.started !== s.process.started)) {
    rates.length = 0;
    last = null;
  }
  if (!last) return;
  const seconds = Math.max(0.001, (Date.parse(s.process.now) - Date.parse(last.process.now)) / 1000);
  rates.push(kind.series.map((name) => Math.max(0, (kind.bytes(s, name) - kind.bytes(last, name)) / seconds)));
  if (rates.length > points) rates.shift();
}

// drawRates draws the last rates as stacked bars.
function drawRates(kind) {
  const sum = (rate) => rate.reduce((a, b) => a + b, 0), top = Math.max(...rates.map(sum), 0), bars = [];
  rates.forEach((rate, i) => {
    let y = 100;
    rate.forEach((r, series) => {
      const height = r * 100 / (top || 1);
      y -= height;
      if (height > 0) bars.push(bar(points - rates.length + i, y, 0.9, height, series));
    });
  });
  draw("throughput", points, bars);
  const now = rates.at(-1) || kind.series.map(() => 0);
  text("throughput-now", size(sum(now)) + "/s");
  text("throughput-top", top ? `top of the scale: ${size(top)}/s` : "");
  byId("throughput-legend").replaceChildren(...kind.series.map((name, i) => {
    const e = element("span", [element("i", [], "s" + i), `${name} ${size(now[i])}/s`]);
    e.dataset.rate = name;
    e.dataset.value = now[i];
    return e;
  }));
}

// quantile names the class with a share of all values.
function quantile(classes, count, share) {
  let sum = 0;
  const i = classes.findIndex((n) => (sum += n) >= share * count);
  return i < bounds.length ? "≤ " + bounds[i] : "> " + bounds.at(-1);
}

function drawLatency(all) {
  const classes = [...bounds, "more"].map((_, i) => all.reduce((sum, l) => sum + (l?.classes[i] || 0), 0));
  const count = classes.reduce((a, b) => a + b, 0), top = Math.max(1, ...classes);
  draw("latency", classes.length, classes.map((n, i) => bar(i + 0.1, 100 - n * 100 / top, 0.8, n * 100 / top, 1,
    `${i < bounds.length ? "up to " + bounds[i] : "longer"}: ${n}`)));
  byId("latency-axis").replaceChildren(...["10 µs", "300 µs", "10 ms", "300 ms", "10 s"].map((b) => element("span", b)));
  text("latency-median", count ? quantile(classes, count, 0.5) : "-");
  byId("latency-text").dataset.count = count;
  text("latency-text", count ? `median of ${count}; 99 % ${quantile(classes, count, 0.99)}` : "none yet");
}

function drawRatio(bytes) {
  const local = bytes.memory + bytes.disk + bytes.catalog, all = local + bytes.origin;
  text("ratio", all ? (local * 100 / all).toFixed(1) + " %" : "-");
  byId("ratio-bars").replaceChildren(...["memory", "disk", "origin", "catalog"].flatMap((name, series) => {
    const part = element("i", [], "s" + series);
    part.style.width = (all ? bytes[name] * 100 / all : 0) + "%";
    return [element("p", [name + " ", figure("span", { bytes }, "bytes." + name, size)], "legend"), element("div", part, "share")];
  }));
}

function drawRequests(s, kind) {
  const head = element("tr", kind.columns.map((c) => element("th", c)));
  byId("requests").replaceChildren(head, ...kind.rows(s).map(([name, ...rest]) => {
    const latency = rest.pop();
    return element("tr", [element("th", name), ...rest.map((path) => figure("td", s, path, path.endsWith("bytes") && size)), element("td", mean(latency))]);
  }));
}

function drawErrors(errors) {
  byId("errors").replaceChildren(...(errors?.length ? errors.slice().reverse() : [null]).map((e) => element("li",
    e ? `${e.time.slice(0, 19)}Z ${e.doing} ${e.path}: ${e.cause}${e.count > 1 ? ` (${e.count} times)` : ""}` : "none")));
}

function show(s) {
  const p = s.process, kind = kindOf(s), name = p.mountpoint || p.address;
  addRates(s, kind);
  last = s;
  document.title = `${name} - xetfs`;
  text("name", name);
  const problem = s.origin.failing ? "the origin fails" : s.follow_error;
  text("state", problem || "serving", Boolean(problem));
  text("source", p.source);
  text("shown", (s.shown || []).map((v) => (v.symbol || "") + (v.version ? "@" + v.version : "")).join(", "));
  text("version", `xetfs ${p.version}, since ${p.started.slice(0, 19)}Z`);
  text("throughput-title", kind.throughput);
  text("latency-title", kind.latency);
  text("requests-title", kind.requests);
  drawRates(kind);
  drawLatency(kind.counts(s));
  drawRatio(s.bytes);
  text("origin-state", s.origin.failing ? "failing: " + (s.origin.last_error || "") : "ok", s.origin.failing);
  list("origin", s, [["requests", "origin.requests"], ["received", "origin.bytes", size], ["errors", "origin.errors"], ["not found", "origin.not_found"],
    ["lost", "origin.lost"], ["retries", "origin.retries"], ["mean first byte", "origin.first_byte.seconds", () => mean(s.origin.first_byte)], ["corrupt", "damage.origin"]]);
  const state = s.disk?.state;
  text("cache-state", state || "no disk cache", state && state !== "ok" && state !== "shared");
  list("cache", s, s.disk ? [["size", "disk.bytes", size], ["limit", "disk.max_bytes", size], ["chunks", "disk.segment_bytes", size],
    ["plain files", "disk.whole_bytes", size], ["evicted", "disk.evicted_bytes", size], ["dropped", "disk.dropped"]] : []);
  list("memory", s, [["chunks", "memory.chunks", size], ["recent chunks", "memory.recent", size], ["index pages", "memory.pages", size],
    ["readahead", "memory.ahead", size], ["process", "process.resident_bytes", size]]);
  drawRequests(s, kind);
  byId("errors-panel").hidden = kind === server;
  drawErrors(s.errors);
}

async function poll() {
  let s = null;
  try {
    const answer = await fetch("stats.json", { signal: AbortSignal.timeout(limit), cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    s = await answer.json();
  } catch {
    text("state", `the ${last ? kindOf(last).noun : "process"} has ended or does not answer`, true);
  }
  setTimeout(poll, interval);
  if (s) show(s);
}

poll();
