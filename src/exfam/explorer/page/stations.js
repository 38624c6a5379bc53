// Stations on a map: hidden, moved, added or given other values, and what follows everywhere.

import * as address from "./address.js";
import { ask, attempt, latest } from "./ask.js";
import { SCALE, shade } from "./colors.js";
import { disable, drawing, element, percent, plain, replace, signed } from "./dom.js";
import { contributions } from "./tables.js";

const WIDE = 600;
const SD = ["#f4f1de", "#c9b8d8", "#9a7fc0", "#6a4a9c", "#3c2a66"];
const state = { time: 0, changes: {}, added: [], chosen: null, layer: "mean", adding: false };
const parts = {};
let given;
let shown = null;
let grid = null;

export async function open(view, start) {
  given = start;
  for (const name of ["map", "grid", "why", "course"]) parts[`show_${name}`] = latest();
  view.className = "two even";
  view.replaceChildren(mapPanel(), stationPanel());
  await restore();
}

export async function restore() {
  const fields = address.read();
  state.time = Math.min(given.times.length - 1, Number(fields.get("time") ?? given.times.length - 1) || 0);
  state.changes = address.json(fields.get("changes"), {});
  state.added = address.json(fields.get("added"), []);
  state.layer = fields.get("layer") === "sd" ? "sd" : "mean";
  state.chosen = fields.has("station") ? Number(fields.get("station")) : null;
  await show();
}

function changed() {
  const { time, changes, added } = state;
  return { time, changes, added };
}

async function show() {
  const { time, changes, added, chosen, layer } = state;
  address.write({
    time, layer: layer === "mean" ? "" : layer, station: chosen ?? "",
    changes: Object.keys(changes).length ? JSON.stringify(changes) : "",
    added: added.length ? JSON.stringify(added) : "",
  });
  parts.time.value = time;
  parts.label.textContent = given.times[time];
  await parts.show_map(ask("map", changed()), (answer) => { shown = answer; drawMap(); });
  const between = given.has_grid
    ? parts.show_grid(ask("grid", changed()), (answer) => { grid = answer; drawMap(); }) : null;
  await Promise.all([showStation(), between]);
}

// A station is known by its site, or, if it was added, by -1 less its number.
function key(k) {
  const { site } = shown.stations[k];
  const first = shown.stations.length - state.added.length;
  return k >= first ? first - k - 1 : site;
}

function indexOf(chosen) {
  if (chosen === null) return -1;
  if (chosen < 0) return shown.stations.length - state.added.length - chosen - 1;
  return shown.stations.findIndex((station) => station.site === chosen);
}

// ---- the map

function mapPanel() {
  const last = given.times.length - 1;
  parts.time = element("input", {
    type: "range", id: "time", min: 0, max: last, "aria-label": "time",
    oninput: () => { state.time = Number(parts.time.value); attempt(show); },
  });
  parts.label = element("output", { for: "time" });
  parts.layer = element("select", {
    id: "layer", "aria-label": "layer",
    onchange: () => { state.layer = parts.layer.value; attempt(show); },
  }, element("option", { value: "mean" }, "mean"), element("option", { value: "sd" }, "standard deviation"));
  parts.add = element("button", {
    "aria-pressed": "false",
    onclick: () => {
      state.adding = !state.adding;
      parts.add.setAttribute("aria-pressed", String(state.adding));
    },
  }, "Add a station by a click");
  parts.map = drawing("svg", { role: "group", "aria-label": "map of the stations" });
  parts.scale = element("p", { class: "quiet" });
  parts.plan = element("div", {});
  return element("section", { "aria-labelledby": "map-title" },
    element("h2", { id: "map-title" }, given.column),
    element("div", { class: "tools" }, parts.time, parts.label),
    element("div", { class: "tools" }, given.has_grid ? parts.layer : null,
      given.fixed ? [] : [parts.add, element("button", {
        onclick: () => { state.changes = {}; state.added = []; attempt(show); },
      }, "Restore all")],
      element("button", { onclick: () => attempt(showPlan) }, "Where to measure next")),
    parts.map, parts.scale, parts.plan);
}

// Latitude comes first and points up.
function frame() {
  const flat = given.low.length > 1;
  const [x, y] = given.geographic ? [1, 0] : [0, 1];
  const width = given.high[x] - given.low[x];
  const middle = flat ? (given.low[y] + given.high[y]) / 2 : 0;
  const height = flat ? given.high[y] - given.low[y] : width / 4;
  const stretch = given.geographic ? 1 / Math.cos((middle * Math.PI) / 180) : 1;
  const high = Math.min(900, Math.max(200, (WIDE * height * stretch) / width));
  return {
    high,
    x: (at) => (WIDE * (at[x] - given.low[x])) / width,
    y: (at) => (flat ? high * (1 - (at[y] - given.low[y]) / height) : high / 2),
    at: (px, py) => {
      const place = given.low.map((low, k) => (low + given.high[k]) / 2);
      place[x] = given.low[x] + (width * px) / WIDE;
      if (flat) place[y] = given.low[y] + height * (1 - py / high);
      return place;
    },
  };
}

function drawMap() {
  const scale = frame();
  parts.layer.value = state.layer;
  parts.map.setAttribute("viewBox", `0 0 ${WIDE} ${scale.high}`);
  const range = rangeOf(state.layer === "mean" ? [...known("value"), ...known("mean")] : [...known("sd"), ...(grid?.sd ?? [])]);
  const children = grid ? gridCells(scale, range) : [];
  parts.lines ??= drawing("g", { class: "lines" });
  children.push(parts.lines, ...shown.stations.map((station, k) => mark(station, k, scale, range)));
  const focused = document.activeElement?.getAttribute?.("data-station");
  parts.map.replaceChildren(...children);
  if (focused) parts.map.querySelector(`[data-station="${focused}"]`)?.focus({ preventScroll: true });
  parts.scale.textContent = `Colors from ${plain(range[0])} to ${plain(range[1])}: ${
    state.layer === "mean" ? "values of stations, and means between them" : "standard deviations"}. Hidden stations are hollow.`;
  parts.map.onclick = (event) => { if (state.adding) addAt(event, scale); };
}

function known(name) {
  return shown.stations.map((station) => station[name]).filter((number) => number !== null);
}

function rangeOf(numbers) {
  const finite = numbers.filter((number) => number !== null);
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  return finite.length ? [low, high > low ? high : low + 1] : [0, 1];
}

function color(number, range) {
  return shade(number, range, state.layer === "mean" ? SCALE : SD);
}

function gridCells(scale, range) {
  const n = grid.cells;
  const numbers = grid[state.layer];
  const corner = (i, j) => given.low.map((low, k) => low + ((given.high[k] - low) * [i, j][k]) / n);
  return numbers.map((number, cell) => {
    const [i, j] = [Math.floor(cell / n), cell % n];
    const [from, to] = [corner(i, j), corner(i + 1, j + 1)];
    const [x, y] = [Math.min(scale.x(from), scale.x(to)), Math.min(scale.y(from), scale.y(to))];
    return drawing("rect", {
      class: "field", x, y, fill: color(number, range),
      width: Math.abs(scale.x(to) - scale.x(from)) + 0.5, height: Math.abs(scale.y(to) - scale.y(from)) + 0.5,
    });
  });
}

function mark(station, k, scale, range) {
  const number = state.layer === "mean" ? station.value : station.sd;
  const hidden = station.value === null;
  const name = key(k);
  const circle = drawing("circle", {
    cx: scale.x(station.at), cy: scale.y(station.at), r: name === state.chosen ? 9 : 6.5,
    class: `station${hidden ? " hidden" : ""}${name === state.chosen ? " chosen" : ""}`,
    "data-station": name, role: "button", tabindex: name === (state.chosen ?? key(0)) ? 0 : -1,
    "aria-label": `${station.name}: ${plain(station.value)}, expected ${plain(station.mean)}`,
    ...(hidden ? {} : { fill: color(number, range) }),
  });
  circle.append(drawing("title", {}, `${station.name}: ${plain(station.value)}`));
  circle.addEventListener("keydown", (event) => keyPressed(event, k, scale));
  circle.addEventListener("pointerdown", (event) => drag(event, k, circle, scale));
  return circle;
}

// Arrow keys go from station to station; Enter chooses one.
function keyPressed(event, k, scale) {
  const by = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (event.key === "Enter" || event.key === " ") choose(key(k));
  else if (by) parts.map.querySelector(`[data-station="${key(next(k, by, scale))}"]`).focus();
  else return;
  event.preventDefault();
}

function next(k, [dx, dy], scale) {
  const [x, y] = [scale.x(shown.stations[k].at), scale.y(shown.stations[k].at)];
  const costs = shown.stations.map((station) => {
    const [right, down] = [scale.x(station.at) - x, scale.y(station.at) - y];
    const [along, across] = [right * dx + down * dy, Math.abs(right * dy) + Math.abs(down * dx)];
    return along > 0.5 ? along + 3 * across : Infinity;
  });
  const best = costs.indexOf(Math.min(...costs));
  return costs[best] < Infinity ? best : k;
}

function point(event) {
  const box = parts.map.getBoundingClientRect();
  const zoom = WIDE / box.width;
  return [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom];
}

function drag(event, k, circle, scale) {
  if (state.adding) return;
  event.preventDefault();
  circle.setPointerCapture(event.pointerId);
  const from = point(event);
  let to = from;
  circle.onpointermove = given.fixed ? null : (moved) => {
    to = point(moved);
    circle.setAttribute("cx", to[0]);
    circle.setAttribute("cy", to[1]);
  };
  circle.onpointerup = () => {
    circle.onpointermove = circle.onpointerup = null;
    if (Math.hypot(to[0] - from[0], to[1] - from[1]) < 4) choose(key(k));
    else move(k, scale.at(...to));
  };
}

// A station that moves is hidden where it was, and added where it is.
function move(k, at) {
  const { site, value } = shown.stations[k];
  const number = key(k);
  if (number < 0) {
    state.added = state.added.map((own, n) => (n === -1 - number ? { ...own, at } : own));
  } else {
    state.changes = { ...state.changes, [site]: null };
    state.added = [...state.added, { at, value }];
    state.chosen = -state.added.length;
  }
  attempt(show);
}

function addAt(event, scale) {
  state.added = [...state.added, { at: scale.at(...point(event)), value: null }];
  state.chosen = -state.added.length;
  state.adding = false;
  parts.add.setAttribute("aria-pressed", "false");
  attempt(show);
}

function choose(chosen) {
  state.chosen = chosen;
  attempt(show);
}

async function showPlan() {
  const { places } = await ask("plan", {});
  replace(parts.plan, element("h3", {}, "Where one more station would make the map surest"),
    element("ul", { class: "listed" }, places.map(({ at, share }) => element("li", {},
      element("span", {}, at.map(plain).join(", ")),
      element("span", { class: "number" }, `${percent(share)} less variance`),
      given.fixed ? null : element("button", {
        class: "add", "aria-label": `Add a station at ${at.map(plain).join(", ")}`,
        onclick: () => { state.added = [...state.added, { at, value: null }]; choose(-state.added.length); },
      }, "+")))));
}

// ---- a station

function stationPanel() {
  parts.choose = element("select", {
    id: "station", onchange: () => choose(Number(parts.choose.value)),
  });
  parts.station = element("div", {});
  parts.why = element("div", {});
  parts.course = element("div", {});
  return element("section", { "aria-labelledby": "station-title" },
    element("h2", { id: "station-title" }, "Station"),
    element("label", { for: "station" }, "Choose "), parts.choose, parts.station, parts.why, parts.course);
}

async function showStation() {
  const k = indexOf(state.chosen);
  replace(parts.choose, element("option", { value: "", disabled: true, selected: k < 0 }, "a station"),
    shown.stations.map((station, n) => element("option", { value: key(n), selected: n === k },
      key(n) < 0 ? `added ${-key(n)}` : station.name)));
  if (k < 0 || k >= shown.stations.length) {
    for (const part of [parts.station, parts.why, parts.course, parts.lines]) replace(part);
    return;
  }
  const station = shown.stations[k];
  replace(parts.station, stationFields(station, k));
  if (given.fixed) disable(parts.station);
  const tasks = [parts.show_why(ask("why", { ...changed(), element: k }), (why) => showWhy(why, station))];
  if (station.site >= 0) {
    tasks.push(parts.show_course(ask("course", { site: station.site, time: state.time }), showCourse));
  } else {
    replace(parts.course);
  }
  await Promise.all(tasks);
}

function stationFields(station, k) {
  const number = key(k);
  const set = (value) => {
    if (number < 0) state.added = state.added.map((own, n) => (n === -1 - number ? { ...own, value } : own));
    else state.changes = { ...state.changes, [number]: value };
    attempt(show);
  };
  const value = element("input", {
    type: "number", step: "any", "aria-label": "value", "data-key": "value",
    value: station.value === null ? "" : Number(station.value.toPrecision(7)),
    onchange: () => set(value.value === "" ? null : Number(value.value)),
  });
  const places = number < 0 ? station.at.map((own, axis) => {
    const field = element("input", {
      type: "number", step: "any", "aria-label": `coordinate ${axis + 1}`, "data-key": `at-${axis}`,
      value: Number(own.toPrecision(7)),
      onchange: () => { const at = [...station.at]; at[axis] = Number(field.value); move(k, at); },
    });
    return field;
  }) : [];
  const restores = number >= 0 && number in state.changes;
  const { mean, sd, low, high, nats } = station;
  return [
    element("div", { class: "tools" }, value, ...places,
      station.value !== null ? element("button", { onclick: () => set(null) }, "Hide its value") : null,
      restores ? element("button", { onclick: () => { delete state.changes[number]; attempt(show); } }, "Restore") : null,
      number < 0 ? element("button", {
        onclick: () => { state.added = state.added.filter((_, n) => n !== -1 - number); choose(null); },
      }, "Take away") : null),
    element("p", { "data-mean": mean, "data-sd": sd },
      `The others say ${plain(mean)} ± ${plain(sd)}, 90 % from ${plain(low)} to ${plain(high)}.`,
      nats === null ? "" : ` log p of its value: ${nats.toFixed(2)} nats.`),
  ];
}

function showWhy(why, station) {
  const scale = frame();
  const largest = Math.max(...why.listened.map((own) => Math.abs(own.contribution)), 1e-12);
  parts.lines.replaceChildren(...why.listened.filter((own) => own.steps_back === 0).map((own) => drawing("line", {
    x1: scale.x(station.at), y1: scale.y(station.at), x2: scale.x(own.at), y2: scale.y(own.at),
    "stroke-width": (1 + (4 * Math.abs(own.contribution)) / largest).toFixed(2),
    class: own.contribution < 0 ? "down" : "up",
  })));
  replace(parts.why, element("h3", {}, "Why"),
    element("p", { class: "quiet" },
      `Normal here ${plain(why.normal)}; all others together ${signed(why.rest, 2)}; attention ${signed(why.shift, 2)}.`),
    contributions("What each value around adds, exactly", why.listened.map((own) => (
      { ...own, name: own.name + (own.steps_back ? `, ${own.steps_back} before` : "") })), 2));
}

function showCourse({ time, value, mean, low, high }) {
  const [width, height] = [500, 140];
  const all = [...value, ...low, ...high].filter((number) => number !== null);
  const [bottom, top] = rangeOf(all);
  const first = time[0] ?? 0;
  const span = Math.max(1, (time.at(-1) ?? 1) - first);
  const x = (k) => 6 + ((width - 12) * (time[k] - first)) / span;
  const y = (number) => 6 + (height - 12) * (1 - (number - bottom) / (top - bottom));
  const there = time.map((_, k) => k).filter((k) => low[k] !== null);
  const upper = there.map((k) => `${x(k).toFixed(1)},${y(high[k]).toFixed(1)}`);
  const lower = there.map((k) => `${x(k).toFixed(1)},${y(low[k]).toFixed(1)}`).reverse();
  const line = there.map((k) => `${x(k).toFixed(1)},${y(mean[k]).toFixed(1)}`);
  const dots = there.filter((k) => value[k] !== null).map((k) => drawing("circle", {
    cx: x(k).toFixed(1), cy: y(value[k]).toFixed(1), r: time[k] === state.time ? 4 : 2.2,
    class: value[k] < low[k] || value[k] > high[k] ? "dot outside" : "dot",
  }));
  replace(parts.course, element("h3", {}, "Its course"),
    drawing("svg", {
      viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `values from ${plain(bottom)} to ${plain(top)} over ${time.length} maps, and what the other stations say`,
    }, drawing("polygon", { class: "curve", points: [...upper, ...lower].join(" ") }),
    drawing("polyline", { class: "range", points: line.join(" ") }), ...dots),
    element("p", { class: "quiet" }, `${given.times[first]} to ${given.times[time.at(-1) ?? first]}: values, and the 90 % intervals that the others give without seeing them.`));
}
