"use strict";

// The page draws /stats.json once per second. It sends no other request.
const interval = 1000, limit = 1500, points = 60;
const sources = ["memory", "disk", "origin", "catalog", "passthrough"];
const bounds = ["10 µs", "30 µs", "100 µs", "300 µs", "1 ms", "3 ms", "10 ms", "30 ms", "100 ms", "300 ms", "1 s", "3 s", "10 s", "30 s", "100 s", "more"];
const rates = [];
let last = null;

const byId = (id) => document.getElementById(id);

function size(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; Math.abs(n) >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i === 0 ? String(Math.round(n)) : n.toFixed(1)) + " " + units[i];
}

function text(id, value, isBad) {
  byId(id).textContent = value;
  byId(id).classList.toggle("bad", Boolean(isBad));
}

// list fills a dl with rows of name, value, and the figure for tests.
function list(id, rows) {
  byId(id).replaceChildren(...rows.flatMap(([name, value, figure]) => {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    dd.textContent = value;
    dd.dataset.figure = name;
    dd.dataset.value = figure === undefined ? value : figure;
    return [dt, dd];
  }));
}

function shape(name, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) {
    if (k === "fill") e.style.fill = v; // the policy of the server refuses style attributes
    else e.setAttribute(k, v);
  }
  return e;
}

// drawRates draws the last rates as stacked bars.
function drawRates() {
  const svg = byId("throughput"), top = Math.max(1, ...rates.map((r) => sources.reduce((sum, s) => sum + r[s], 0)));
  svg.setAttribute("viewBox", `0 0 ${points} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  const bars = [shape("rect", { x: 0, y: 99.5, width: points, height: 0.5, fill: "var(--line)" })];
  rates.forEach((r, i) => {
    let y = 100;
    for (const s of sources) {
      const height = r[s] * 100 / top;
      y -= height;
      bars.push(shape("rect", { x: points - rates.length + i, y, width: 0.9, height, fill: `var(--${s})` }));
    }
  });
  svg.replaceChildren(...bars);
  const now = rates.at(-1);
  byId("throughput-text").replaceChildren(...sources.flatMap((s) => {
    const b = document.createElement("b");
    b.style.color = `var(--${s})`;
    b.textContent = s;
    return [b, ` ${size(now ? now[s] : 0)}/s  `];
  }));
}

function drawLatency(read) {
  const svg = byId("latency"), classes = read ? read.latency.classes : bounds.map(() => 0), top = Math.max(1, ...classes);
  svg.setAttribute("viewBox", `0 0 ${bounds.length} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  const bars = [shape("rect", { x: 0, y: 99.5, width: bounds.length, height: 0.5, fill: "var(--line)" })];
  bars.push(...classes.map((n, i) => {
    const bar = shape("rect", { x: i + 0.1, y: 100 - n * 100 / top, width: 0.8, height: n * 100 / top, fill: "var(--disk)" });
    const title = shape("title", {});
    title.textContent = `up to ${bounds[i]}: ${n}`;
    bar.append(title);
    return bar;
  }));
  svg.replaceChildren(...bars);
  let left = read ? read.latency.count : 0;
  const parts = [0.5, 0.99].map((q) => {
    let sum = 0;
    const i = classes.findIndex((n) => (sum += n) >= q * left && left > 0);
    return `${q * 100} % within ${i < 0 ? "-" : bounds[i]}`;
  });
  text("latency-text", `${left} reads; ${parts.join(", ")}`);
}

function drawRatio(bytes) {
  const local = bytes.memory + bytes.disk + bytes.catalog, all = local + bytes.origin;
  text("ratio", all ? (local * 100 / all).toFixed(1) + " %" : "-");
  byId("ratio-bars").replaceChildren(...["memory", "disk", "origin"].flatMap((s) => {
    const p = document.createElement("p"), m = document.createElement("meter");
    p.className = "legend";
    p.textContent = `${s} ${size(bytes[s])}`;
    m.max = all || 1;
    m.value = bytes[s];
    m.ariaLabel = s;
    return [p, m];
  }));
}

function draw(s) {
  const p = s.process;
  document.title = `${p.mountpoint} - xetfs`;
  text("mount", p.mountpoint);
  text("state", s.origin.failing ? "the origin fails" : "serving", s.origin.failing);
  text("source", p.source);
  text("shown", (s.shown || []).map((v) => (v.symbol || "") + (v.version ? "@" + v.version : "")).join(", "));
  if (last && last.process.pid === p.pid) {
    const seconds = Math.max(0.001, (Date.parse(p.now) - Date.parse(last.process.now)) / 1000), rate = {};
    for (const source of sources) rate[source] = Math.max(0, (s.bytes[source] - last.bytes[source]) / seconds);
    rates.push(rate);
    if (rates.length > points) rates.shift();
  }
  last = s;
  drawRates();
  drawRatio(s.bytes);
  drawLatency(s.operations.read);
  text("origin-state", s.origin.failing ? "failing: " + (s.origin.last_error || "") : "ok", s.origin.failing);
  const first = s.origin.first_byte;
  list("origin", [["requests", s.origin.requests], ["received", size(s.origin.bytes), s.origin.bytes], ["errors", s.origin.errors],
    ["not found", s.origin.not_found], ["lost", s.origin.lost], ["retries", s.origin.retries],
    ["mean first byte", first.count ? (first.seconds * 1000 / first.count).toFixed(1) + " ms" : "-"], ["corrupt", s.damage.origin]]);
  const d = s.disk;
  text("cache-state", d ? d.state : "no disk cache", d && d.state !== "ok" && d.state !== "shared");
  list("cache", d ? [["size", size(d.bytes), d.bytes], ["limit", size(d.max_bytes), d.max_bytes], ["chunks", size(d.segment_bytes), d.segment_bytes],
    ["plain files", size(d.whole_bytes), d.whole_bytes], ["evicted", size(d.evicted_bytes), d.evicted_bytes], ["dropped", d.dropped]] : []);
  list("memory", [["chunks", size(s.memory.chunks), s.memory.chunks], ["recent chunks", size(s.memory.recent), s.memory.recent],
    ["index pages", size(s.memory.pages), s.memory.pages], ["readahead", size(s.memory.ahead), s.memory.ahead],
    ["process", size(p.resident_bytes), p.resident_bytes]]);
  byId("errors").replaceChildren(...(s.errors && s.errors.length ? s.errors.slice().reverse() : [null]).map((e) => {
    const li = document.createElement("li");
    li.textContent = e ? `${e.time.slice(0, 19)}Z ${e.doing} ${e.path}: ${e.cause}${e.count > 1 ? ` (${e.count} times)` : ""}` : "none";
    return li;
  }));
}

async function poll() {
  try {
    const answer = await fetch("stats.json", { signal: AbortSignal.timeout(limit), cache: "no-store" });
    if (!answer.ok) throw new Error(answer.status);
    draw(await answer.json());
  } catch {
    text("state", "the mount has ended or does not answer", true);
  }
  setTimeout(poll, interval);
}

poll();
