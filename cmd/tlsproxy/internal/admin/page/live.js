// The live page: /events sends the proxy's counters once a second, and this shows
// them. Rates are between two events; percentiles are of the last ten.
"use strict";

const span = 120; // seconds of the chart
const recent = 10; // events that the percentiles look back
const history = [];
const colours = new Map();

const $ = (id) => document.getElementById(id);

function number(n) {
  if (n >= 100 || Number.isInteger(n)) return Math.round(n).toLocaleString("en");
  return n.toPrecision(2);
}

function seconds(s) {
  if (s === null) return "–";
  if (s < 1e-3) return (s * 1e6).toPrecision(3) + " µs";
  if (s < 1) return (s * 1e3).toPrecision(3) + " ms";
  return s.toPrecision(3) + " s";
}

function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (n < 1024 || unit === "TiB") return n.toPrecision(3) + " " + unit;
    n /= 1024;
  }
}

function element(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

function set(id, text) {
  const e = $(id);
  if (e.textContent !== text) e.textContent = text; // a reader is told of changes only
}

function row(...cells) {
  const tr = element("tr", {}, element("th", { scope: "row" }, cells[0]));
  for (const cell of cells.slice(1)) tr.append(element("td", { class: "n" }, cell));
  return tr;
}

function colour(group) {
  if (!colours.has(group)) colours.set(group, "var(--g" + (colours.size % 6) + ")");
  return colours.get(group);
}

// rate is how much a counter grows a second, between the last two events.
function rate(counter) {
  if (history.length < 2) return 0;
  const a = history[history.length - 2], b = history[history.length - 1];
  return Math.max(0, counter(b) - counter(a)) / Math.max(b.time - a.time, 1e-3);
}

const sum = (counts) => Object.values(counts || {}).reduce((a, b) => a + b, 0);

// quantile of what was counted after earlier, in buckets of {UpTo, Count}.
function quantile(now, earlier, q) {
  const before = new Map((earlier || []).map((b) => [b.UpTo, b.Count]));
  const counted = (now || []).map((b) => [b.UpTo, b.Count - (before.get(b.UpTo) || 0)]);
  const total = counted.reduce((a, b) => a + b[1], 0);
  if (total <= 0) return null;
  let below = 0;
  for (const [upTo, count] of counted) {
    below += count;
    if (below >= q * total) return upTo;
  }
  return null;
}

function chart(groups) {
  const end = history[history.length - 1].time;
  const points = new Map(groups.map((g) => [g, []]));
  let most = 1;
  for (let i = 1; i < history.length; i++) {
    const a = history[i - 1], b = history[i];
    for (const g of groups) {
      const r = Math.max(0, (b.handshakes[g] || 0) - (a.handshakes[g] || 0)) / Math.max(b.time - a.time, 1e-3);
      most = Math.max(most, r);
      points.get(g).push([span - (end - b.time), r]);
    }
  }
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 " + span + " 100");
  svg.setAttribute("preserveAspectRatio", "none");
  for (const g of groups) {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("points", points.get(g).map(([x, y]) => x.toFixed(2) + "," + (98 - (y / most) * 94).toFixed(2)).join(" "));
    line.style.stroke = colour(g);
    svg.append(line);
  }
  $("groups-chart").replaceChildren(svg);
}

function showGroups(now) {
  const groups = Object.keys(now.handshakes).sort();
  $("groups").replaceChildren(...groups.map((g) => {
    const key = element("span", { class: "key" });
    key.style.background = colour(g);
    const name = element("span", {}, key, g);
    const tr = row(name, number(rate((e) => e.handshakes[g] || 0)), number(now.handshakes[g]));
    tr.dataset.group = g;
    return tr;
  }));
  if (groups.length === 0) $("groups").replaceChildren(row("no handshake yet", "", ""));
  chart(groups);
}

function showEngines(now) {
  const gpu = rate((e) => e.by_gpu), cpu = rate((e) => e.by_cpu);
  const inAll = now.by_gpu + now.by_cpu, live = gpu + cpu;
  const share = live > 0 ? gpu / live : inAll > 0 ? now.by_gpu / inAll : 0;
  $("share").classList.toggle("some", inAll > 0);
  $("share-gpu").style.width = (100 * share).toFixed(1) + "%";
  $("share").setAttribute("aria-label", inAll > 0 ? "GPU " + (100 * share).toFixed(0) + " %, CPU " + (100 - 100 * share).toFixed(0) + " %" : "no key exchange yet");
  $("engines").replaceChildren(row("GPU", number(gpu), number(now.by_gpu)), row("CPU", number(cpu), number(now.by_cpu)));
  const left = Object.entries(now.fallbacks || {}).filter(([, n]) => n > 0).map(([why, n]) => number(n) + " " + why);
  set("fallbacks", left.length > 0 ? "The CPU did in a GPU's place: " + left.join(", ") + "." : "");
}

function showLatency(now) {
  const earlier = history[Math.max(0, history.length - 1 - recent)];
  const before = history.length > 1 ? earlier.latency : [];
  $("latency").replaceChildren(...[0.5, 0.9, 0.99].map((q) =>
    row("p" + 100 * q, seconds(quantile(now.latency, before, q)), seconds(quantile(now.latency, [], q)))));
}

function showGPU(d) {
  const open = d.State === "open";
  const box = element("div", { "data-gpu": d.Number });
  box.append(element("h3", {}, "GPU " + d.Number + ", " + d.Name));
  box.append(element("p", { class: open ? "good" : "bad" }, open ? "open" : d.State + " since " + d.Since + ": " + d.LastError));
  const size = d.Batches > 0 ? d.Rows / d.Batches : 0;
  const table = element("table", {}, element("tbody", {},
    row("batches", number(d.Batches)), row("operations in them", number(d.Rows)), row("mean size of a batch", number(size)),
    row("in flight", number(d.InFlight)), row("batch time p50, p99", seconds(d.LatencyP50 / 1e9) + ", " + seconds(d.LatencyP99 / 1e9)),
    row("faults, hangs, resets", [d.Faults, d.Hangs, d.Resets].map(number).join(", "))));
  const sensors = [];
  if (d.MemoryUsed !== null) sensors.push(row("memory in use", bytes(d.MemoryUsed)));
  if (d.Utilization !== null) sensors.push(row("busy", (100 * d.Utilization).toFixed(0) + " %"));
  if (d.Temperature !== null) sensors.push(row("temperature", d.Temperature.toFixed(0) + " °C"));
  if (d.Power !== null) sensors.push(row("power", d.Power.toFixed(0) + " W"));
  table.tBodies[0].append(...sensors);
  box.append(table, sizes(d));
  return box;
}

// sizes draws how many batches had how many operations, by powers of two.
function sizes(d) {
  const counts = [];
  for (const b of d.Sizes || []) {
    const power = Math.ceil(Math.log2(Math.max(b.UpTo, 1)));
    counts[power] = (counts[power] || 0) + b.Count;
  }
  const most = Math.max(1, ...counts.map((n) => n || 0));
  const words = [];
  const bars = element("div", { class: "bars", role: "img" });
  for (let power = 0; power < Math.max(counts.length, 11); power++) {
    const n = counts[power] || 0;
    const bar = element("span", { title: "up to " + 2 ** power + ": " + n });
    bar.style.height = (100 * n / most).toFixed(1) + "%";
    bars.append(bar);
    if (n > 0) words.push("up to " + 2 ** power + ": " + number(n));
  }
  bars.setAttribute("aria-label", words.length > 0 ? "Batches by size: " + words.join("; ") : "no batch yet");
  return element("figure", {}, bars, element("figcaption", {}, "batches by size, 1 to " + 2 ** (Math.max(counts.length, 11) - 1)));
}

function show(now) {
  document.body.dataset.events = String(Number(document.body.dataset.events || 0) + 1);
  set("state", now.draining ? "draining" : "serving on " + now.listening.join(", "));
  set("rate", number(rate((e) => sum(e.handshakes))));
  set("connections", number(now.connections));
  set("failed", number(now.failed_handshakes));
  set("shed", number(now.shed_connections));
  showGroups(now);
  showEngines(now);
  showLatency(now);
  if (now.gpus.length > 0) $("gpus").replaceChildren(...now.gpus.map(showGPU));
  const health = now.out_of_order.length > 0 ? now.out_of_order : ["nothing"];
  if ($("health").innerText !== health.join("\n")) $("health").replaceChildren(...health.map((h) => element("li", { class: h === "nothing" ? "" : "bad" }, h)));
  $("certificates").replaceChildren(...now.certificates.map((c) => element("tr", {}, element("th", { scope: "row" }, c.names), element("td", {}, c.not_after))));
  $("load").hidden = !now.demo;
  const button = document.querySelector("#load button");
  button.disabled = now.demo_loading;
  button.textContent = now.demo_loading ? "A demo load runs" : "Start a demo load";
}

const events = new EventSource("/events");
events.onmessage = (message) => {
  const now = JSON.parse(message.data);
  history.push(now);
  while (history.length > 2 && now.time - history[0].time > span) history.shift();
  show(now);
};
events.onerror = () => set("state", "no answer; trying again");

$("load").addEventListener("submit", async (event) => {
  event.preventDefault();
  set("load-said", "asking…");
  try {
    const response = await fetch("/demo/load", { method: "POST" });
    set("load-said", (await response.text()).trim());
  } catch (error) {
    set("load-said", String(error));
  }
});
