// Words and items: a map of their vectors, what is near, and analogies as arrows.

import * as address from "./address.js";
import { ask, attempt, latest } from "./ask.js";
import { shade } from "./colors.js";
import { bar, element, percent, plain, replace, signed } from "./dom.js";
import { Plane } from "./plane.js";

const PLANES = { main: "in which they vary most", mirror: "with the reflected half upwards" };
const LAYERS = { center: "vectors", context: "context vectors", both: "both" };
const state = { code: null, plane: "main", layer: "center", color: "", analogy: [] };
const names = new Map();
const parts = {};
const shown = { window: null, near: null, analogy: null };
let given;
let map;

export async function open(view, start) {
  given = start;
  remember(start.items);
  for (const name of ["window", "near", "analogy"]) parts[`show_${name}`] = latest();
  map = new Plane({ label: `Map of ${given.noun}s`, moved: () => attempt(showMap), choose });
  view.className = "two even";
  view.replaceChildren(mapPanel(), wordPanel(), given.has_analogies ? analogyPanel() : "");
  await restore();
}

export async function restore() {
  const fields = address.read();
  const [code = null] = address.codes(fields.get("code"));
  const pick = (name, allowed) => (allowed.includes(fields.get(name)) ? fields.get(name) : allowed[0]);
  Object.assign(state, {
    code, plane: pick("plane", Object.keys(given.planes)), layer: pick("layer", layers()),
    color: pick("color", ["", ...given.attributes]), analogy: address.codes(fields.get("analogy")).slice(0, 3),
  });
  const unnamed = state.analogy.filter((own) => !names.has(own));
  if (unnamed.length) remember((await ask("find", { codes: unnamed })).items);
  state.analogy.forEach((own, k) => { if (parts.given) parts.given[k].value = names.get(own); });
  const part = (fields.get("part") ?? "").split(",").map(Number);
  map.extent(given.planes[state.plane], part.length === 3 && part.every(Number.isFinite) ? part : null);
  showFound(given.items);
  await show();
}

// What stands out is known first: it is drawn wherever it is.
async function show() {
  await Promise.all([showWord(), showAnalogy()]);
  await showMap();
}

function remember(items) {
  for (const { code, name } of items) names.set(code, name);
}

function layers() {
  return given.has_context ? Object.keys(LAYERS) : ["center"];
}

function choose(code) {
  state.code = code;
  attempt(show);
}

function write() {
  address.write({
    code: state.code ?? "", plane: state.plane === "main" ? "" : state.plane,
    layer: state.layer === "center" ? "" : state.layer, color: state.color,
    analogy: state.analogy.length === 3 ? state.analogy.join(",") : "", part: map.part,
  });
}

// ---- the map

function mapPanel() {
  const select = (name, options, says) => {
    parts[name] = element("select", {
      id: name, "aria-label": says,
      onchange: () => {
        state[name] = parts[name].value;
        if (name === "plane") map.extent(given.planes[state.plane], null);
        attempt(show);
      },
    }, options.map(([value, text]) => element("option", { value }, text)));
    return options.length > 1 ? parts[name] : null;
  };
  parts.legend = element("ul", { class: "legend" });
  parts.says = element("p", { class: "quiet", role: "status" });
  return element("section", { "aria-labelledby": "map-title" },
    element("h2", { id: "map-title" }, `Map of ${given.noun}s`),
    element("div", { class: "tools" },
      select("plane", Object.keys(given.planes).map((name) => [name, `Plane ${PLANES[name]}`]), "plane"),
      select("layer", layers().map((name) => [name, LAYERS[name]]), "what is drawn"),
      select("color", [["", "one color"], ...given.attributes.map((name) => [name, `by ${name}`])], "color"),
      ...map.buttons),
    map.svg, parts.legend, parts.says);
}

async function showMap() {
  write();
  for (const name of ["plane", "layer", "color"]) parts[name].value = state[name];
  const { plane, layer, color } = state;
  const question = { plane, layer, color, ...map.window, also: marked().map((dot) => dot.code) };
  await parts.show_window(ask("window", question), (answer) => {
    remember(answer.dots);
    shown.window = answer;
    draw();
  });
}

// Dots that stand out wherever they are.
function marked() {
  const near = state.code !== null && shown.near ? [shown.near, ...shown.near.alike] : [];
  const { given: three = [], answers = [] } = shown.analogy ?? {};
  return [...near, ...three, ...answers.slice(0, 1)];
}

function draw() {
  if (!shown.window) return;
  const { window, near, analogy } = shown;
  const kinds = new Map(analogy ? [...analogy.given, analogy.answers[0]].map((dot) => [dot.code, "term"]) : []);
  if (state.code !== null && near) {
    for (const dot of near.alike) kinds.set(dot.code, "near");
    kinds.set(near.code, "chosen");
  }
  const onContext = state.layer === "context";
  const dots = window.dots.map((dot, k) => {
    const kind = kinds.get(dot.code) ?? "";
    const value = window.colors?.[k] ?? null;
    const without = window.colors && value === null ? " none" : "";
    const colored = value === null || !window.labels ? without : ` k${value}`;
    return {
      ...dot, at: onContext ? dot.context_at : dot.at, kind: kind + colored, first: kind !== "",
      fill: value !== null && window.range ? shade(value, window.range) : null,
    };
  });
  const rings = state.layer === "both" ? window.dots.map((dot) => ({
    at: dot.context_at, from: dot.at, kind: kinds.has(dot.code) ? "tied" : "",
  })) : [];
  const at = (dot) => (onContext ? dot.context_at : dot.at);
  const [a, b, c, d] = analogy ? [...analogy.given, analogy.answers[0]].map(at) : [];
  map.draw({ dots, rings, cells: crowds(window), arrows: d ? [[a, b], [c, d]] : [] });
  says(window);
  legend(window);
}

function crowds({ density, cells, low, high }) {
  const most = Math.max(...density.map(([, , count]) => count), 1);
  const size = low.map((own, k) => (high[k] - own) / cells);
  return density.map(([i, j, count]) => ({
    low: [low[0] + i * size[0], low[1] + j * size[1]], high: [low[0] + (i + 1) * size[0], low[1] + (j + 1) * size[1]],
    share: Math.sqrt(count / most),
  }));
}

function says({ dots, n_inside }) {
  const every = `${Math.min(dots.length, n_inside).toLocaleString("en")} of ${n_inside.toLocaleString("en")} ${given.noun}s here are drawn as dots${n_inside > dots.length ? ", the most frequent; shades are the others" : ""}.`;
  const kind = state.layer === "both" ? " Rings are context vectors." : "";
  parts.says.textContent = `${every}${kind} The plane holds ${percent(given.planes[state.plane].share)} of the variance of ${given.by}: neighbors on it need not be neighbors.`;
}

function legend({ labels, range }) {
  const swatch = (kind) => element("span", { class: `swatch ${kind}`, "aria-hidden": "true" });
  const rows = (labels ?? []).map((label, k) => element("li", {}, swatch(`k${k}`), label));
  if (range) {
    const ends = range.map((own) => { const one = swatch(""); one.style.background = shade(own, range); return [one, plain(own)]; });
    rows.push(...ends.map(([one, text]) => element("li", {}, one, text)));
  }
  replace(parts.legend, rows);
}

// ---- one word

function wordPanel() {
  parts.search = element("input", {
    type: "search", id: "find", autocomplete: "off", "aria-controls": "found",
    oninput: () => attempt(find),
    onkeydown: (event) => { if (event.key === "Enter") parts.found.querySelector("button")?.click(); },
  });
  parts.count = element("p", { class: "quiet", role: "status" });
  parts.found = element("ul", { id: "found", class: "found" });
  parts.word = element("div", { id: "word" });
  return element("section", { "aria-labelledby": "word-title" },
    element("h2", { id: "word-title" }, given.noun === "word" ? "Word" : "Item"),
    element("label", { for: "find" }, `Find one of ${given.n.toLocaleString("en")}`),
    given.n_all > given.n ? element("p", { class: "quiet" }, `${(given.n_all - given.n).toLocaleString("en")} rarer ones have no vectors.`) : null,
    parts.search, parts.count, parts.found, parts.word);
}

async function find() {
  const text = parts.search.value;
  const answer = await ask("find", { text });
  if (text === parts.search.value) showFound(answer.items, answer.n_found);
}

function showFound(items, count) {
  remember(items);
  parts.count.textContent = count === undefined ? "The most frequent:" : `${count.toLocaleString("en")} found`;
  replace(parts.found, items.map((one) => element("li", {}, element("button", {
    "data-key": `found-${one.code}`, onclick: () => look(one.code),
  }, one.name))));
}

// Chooses one, and moves the map to it where it is out of sight.
async function look(code) {
  state.code = code;
  await attempt(async () => {
    await showWord();
    const at = state.layer === "context" ? shown.near.context_at : shown.near.at;
    const { low, high } = map.window;
    const there = at.every((own, k) => own > low[k] && own < high[k]);
    if (there) await showMap();
    else map.show([...at, map.zoom]);
  });
}

async function showWord() {
  if (state.code === null) {
    shown.near = null;
    replace(parts.word, element("p", { class: "quiet" }, `Choose a ${given.noun} to see what is near it.`));
    return;
  }
  await parts.show_near(ask("near", { code: state.code, plane: state.plane }), (near) => {
    shown.near = near;
    remember([near, ...near.alike, ...near.beside]);
    draw();
    replace(parts.word, element("h3", { "data-code": near.code }, near.name), facts(near),
      ...list("Used alike", `cosines of ${given.by}`, near.alike, "alike"),
      ...(near.beside.length ? list("Found beside it", "cosines of context vectors with its vector", near.beside, "beside") : []));
  });
}

function facts({ own_cosine, reflected_share, attributes }) {
  const said = Object.entries(attributes).filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}: ${typeof value === "number" ? plain(value) : value}`);
  if (own_cosine !== null) said.push(`cosine with its own context vector ${signed(own_cosine, 2)}`);
  if (reflected_share !== null) said.push(`${percent(reflected_share)} of its squared length is in the reflected half`);
  return element("p", { class: "quiet", "data-own": own_cosine }, said.length ? `${said.join("; ")}.` : "");
}

function list(title, note, rows, kind) {
  return [element("h3", {}, title), element("p", { class: "quiet" }, note),
    element("ul", { class: "shares" }, rows.map((one) => element("li", {},
      element("button", { class: "name", "data-key": `${kind}-${one.code}`, onclick: () => look(one.code) }, one.name),
      bar(one.similarity),
      element("span", { class: "number", [`data-${kind}`]: one.similarity }, signed(one.similarity, 3)))))];
}

// ---- analogies

function analogyPanel() {
  parts.given = ["first", "its partner", "second"].map((says, k) => element("input", {
    type: "text", autocomplete: "off", "aria-label": says, "data-key": `term-${k}`,
    onchange: () => attempt(() => take(k)),
  }));
  const [a, b, c] = parts.given;
  parts.answers = element("ol", { class: "shares", id: "answers" });
  parts.unknown = element("p", { class: "quiet", role: "status" });
  return element("section", { "aria-labelledby": "analogy-title", class: "wide" },
    element("h2", { id: "analogy-title" }, "Analogy"),
    element("div", { class: "tools terms" }, a, "is to", b, "as", c, "is to …"), parts.unknown, parts.answers);
}

// The one that is typed, or else the first that is found by it.
async function take(k) {
  const typed = parts.given.map((input) => input.value.trim());
  const found = await Promise.all(typed.map(async (text) => {
    if (!text) return null;
    const { items } = await ask("find", { text });
    remember(items);
    return items.find((one) => one.name === text) ?? items[0] ?? null;
  }));
  found.forEach((one, n) => { if (one) parts.given[n].value = one.name; });
  const missing = typed[k] && !found[k];
  parts.unknown.textContent = missing ? `There is no ${given.noun} ${typed[k]}.` : "";
  state.analogy = found.every(Boolean) ? found.map((one) => one.code) : [];
  await showAnalogy();
  await showMap();
}

async function showAnalogy() {
  if (!parts.answers) return;
  if (state.analogy.length < 3) {
    shown.analogy = null;
    replace(parts.answers);
    return;
  }
  const [a, b, c] = state.analogy;
  await parts.show_analogy(ask("analogy", { a, b, c, plane: state.plane }), (answer) => {
    shown.analogy = answer;
    remember(answer.answers);
    const largest = Math.max(...answer.answers.map((one) => Math.abs(one.similarity)), 1e-12);
    replace(parts.answers, answer.answers.map((one) => element("li", {},
      element("button", { class: "name", "data-key": `answer-${one.code}`, onclick: () => look(one.code) }, one.name),
      bar(one.similarity / largest),
      element("span", { class: "number", "data-answer": one.similarity }, signed(one.similarity, 3)))));
    draw();
  });
}
