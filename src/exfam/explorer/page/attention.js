// Attention: what listens to what, by layer and head, in a basket, a row or a sentence.

import * as address from "./address.js";
import { ask, attempt, latest } from "./ask.js";
import { bar, element, percent, plain, replace } from "./dom.js";

const TERMS = { both: "attention as it is", contextual: "what is said alone, without positions", positional: "positions alone" };
const MEASURES = { beside: "to none of them", locality: "locality", symmetry: "symmetry" };
const MANY = 14;
const state = { part: "", term: "both", layer: 0, head: 0, row: null, measure: "", of: {}, text: "" };
const parts = {};
let given;
let shown = null;
let probe = null;

export async function open(view, start) {
  given = start;
  [probe, shown] = [null, null];
  parts.show = latest();
  view.className = "two even";
  view.replaceChildren(inputPanel(), ...weightsPanel(), headsPanel());
  await restore();
}

export async function restore() {
  const fields = address.read();
  const pick = (name, allowed) => (allowed.includes(fields.get(name)) ? fields.get(name) : allowed[0]);
  const whole = (name) => Math.max(0, Math.floor(Number(fields.get(name)) || 0));
  Object.assign(state, {
    part: pick("part", given.parts), term: pick("term", given.terms), layer: whole("layer"), head: whole("head"),
    row: fields.has("at") ? whole("at") : null, measure: fields.get("measure") ?? "", text: fields.get("text") ?? "",
  });
  // The basket or row that another view was left with goes before that of the address.
  const source = address.fieldsOf({ items: "items", row: "row" }[given.noun]) ?? fields;
  state.of = Object.fromEntries(["items", "values", "index", "cells"].map((name) => [name, source.get(name) ?? ""]));
  if (parts.sentence) parts.sentence.value = state.text;
  await show();
}

function question() {
  const { items, values, index, cells } = state.of;
  if (given.noun === "sentence") return { text: state.text };
  if (given.noun === "items") return { items: address.codes(items), ...(values ? { values: address.json(values) } : {}) };
  return cells ? { cells: address.json(cells, {}) } : { index: Number(index) || 0 };
}

async function show() {
  const { part, term, layer, head, row, measure, text, of } = state;
  address.write({
    part: part === given.parts[0] ? "" : part, term: term === "both" ? "" : term, layer: layer || "", head: head || "",
    at: row ?? "", measure, text, ...of,
  });
  await parts.show(ask("attention", { ...question(), part, term, layer, head }), (answer) => {
    shown = answer;
    showInput();
    showChoices();
    showWeights();
    showRow();
    showHeads();
  });
}

function set(fields) {
  Object.assign(state, fields);
  attempt(show);
}

// ---- what is looked at

function inputPanel() {
  parts.context = element("ol", { class: "chips", "aria-label": "What is looked at" });
  if (given.noun === "sentence") {
    parts.sentence = element("input", {
      type: "text", id: "sentence", autocomplete: "off", "data-key": "sentence",
      oninput: () => set({ text: parts.sentence.value, row: null }),
    });
    return element("section", { "aria-labelledby": "input-title", class: "wide" },
      element("h2", { id: "input-title" }, "Sentence"),
      element("label", { for: "sentence" }, "Words, with white space between them"), parts.sentence);
  }
  const title = given.noun === "row" ? "Row" : "Items";
  return element("section", { "aria-labelledby": "input-title", class: "wide" },
    element("h2", { id: "input-title" }, title), parts.context,
    element("p", { class: "quiet" }, `Another view of this model changes ${given.noun === "row" ? "its cells" : "them"}: what was put together there is looked at here.`));
}

function showInput() {
  if (given.noun === "sentence") return;
  const own = shown.columns.slice(0, shown.n_own);
  const chips = own.map((name) => element("li", {}, name));
  replace(parts.context, chips.length ? chips : element("li", { class: "quiet" }, "Nothing yet"));
}

// ---- weights

function weightsPanel() {
  const select = (name, says, change) => {
    parts[name] = element("select", { id: `choose-${name}`, "aria-label": says, onchange: () => change(parts[name].value) });
    return parts[name];
  };
  parts.weights = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "attention weights" });
  parts.note = element("p", { class: "quiet", role: "status" });
  parts.row = element("div", { id: "row" });
  return [
    element("section", { "aria-labelledby": "weights-title" },
      element("h2", { id: "weights-title" }, "Attention weights"),
      element("div", { class: "tools" },
        given.parts.length > 1 ? select("part", "part of the model", (part) => set({ part })) : null,
        given.terms.length > 1 ? select("term", "words or positions", (term) => set({ term })) : null,
        select("layer", "layer", (layer) => set({ layer: Number(layer) })),
        select("head", "head", (head) => set({ head: Number(head) }))),
      parts.weights, parts.note),
    element("section", { "aria-labelledby": "row-title" }, element("h2", { id: "row-title" }, "One of them"), parts.row),
  ];
}

function showChoices() {
  const options = (select, values, chosen) => {
    if (select) replace(select, values.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
  };
  const numbered = (name, n) => [[0, `mean of ${name}s`], ...Array.from({ length: n }, (_, k) => [k + 1, `${name} ${k + 1}`])];
  options(parts.part, given.parts.map((name) => [name, name]), state.part);
  options(parts.term, given.terms.map((name) => [name, TERMS[name]]), state.term);
  options(parts.layer, numbered("layer", shown.n_layers), state.layer > shown.n_layers ? 0 : state.layer);
  options(parts.head, numbered("head", shown.n_heads), state.head > shown.n_heads ? 0 : state.head);
}

function showWeights() {
  const { rows, columns, weights, n_own } = shown;
  if (!rows.length) {
    replace(parts.weights, element("p", { class: "quiet" }, "Nothing attends to anything yet."));
    parts.note.textContent = "";
    return;
  }
  const largest = Math.max(...weights.flat().map(Math.abs), 1e-12);
  const cell = (weight, row, k) => {
    const shade = element("span", { class: weight < 0 ? "shade down" : "shade" });
    shade.style.opacity = Math.abs(weight) / largest;
    const text = weight.toFixed(2).replace(/^(-?)0\./, "$1.");
    return element("td", {
      class: k === n_own ? "beside" : "", "data-weight": weight, title: `${row} → ${columns[k]}: ${weight.toFixed(4)}`,
    }, shade, element("span", { class: columns.length > MANY ? "unseen" : "" }, text));
  };
  const head = element("tr", {}, element("td", {}),
    columns.map((name) => element("th", { scope: "col" }, element("span", { title: name }, name))));
  const body = rows.map((name, k) => element("tr", { class: k === state.row ? "chosen" : "" },
    element("th", { scope: "row" }, element("button", {
      class: "name", "data-key": `row-${k}`, "aria-pressed": String(k === state.row), title: name, onclick: () => set({ row: k }),
    }, name)), weights[k].map((weight, column) => cell(weight, name, column))));
  replace(parts.weights, element("table", { class: "heat" },
    element("caption", {}, "A row for each that attends, a column for each that is attended to"),
    element("thead", {}, head), element("tbody", {}, body)));
  parts.note.textContent = note();
}

function note() {
  const kinds = {
    items: "An element does not see itself. “(nothing)” is the null token, “(mask)” the hidden element's own mask.",
    row: "Each column is predicted from the others; in its own column it sees that it is hidden.",
    sentence: "To a word of several tokens weights are summed, from it they are averaged. What is left of a row goes to the special tokens.",
  };
  const share = given.is_share ? "" : " Weights of this attention are no shares: they may be below 0.";
  const alone = state.term === "positional" && given.noun !== "sentence" ? " These are the weights that the encoding makes where nothing is said." : "";
  const off = given.is_off ? " Attention is switched off in this model: its weights change no prediction." : "";
  return kinds[given.noun] + share + alone + off;
}

function showRow() {
  const { rows, columns, weights } = shown;
  const k = state.row !== null && state.row < rows.length ? state.row : rows.length - 1;
  if (k < 0) {
    replace(parts.row);
    return;
  }
  const order = columns.map((_, column) => column).sort((one, other) => Math.abs(weights[k][other]) - Math.abs(weights[k][one]));
  const largest = Math.max(...weights[k].map(Math.abs), 1e-12);
  replace(parts.row, element("h3", {}, `${rows[k]} attends to`),
    element("ul", { class: "shares" }, order.slice(0, 16).map((column) => element("li", {},
      element("span", {}, columns[column]), bar(weights[k][column] / largest),
      element("span", { class: "number", "data-share": weights[k][column] },
        given.is_share ? percent(weights[k][column]) : plain(weights[k][column]))))));
}

// ---- heads

function headsPanel() {
  parts.measures = element("div", { class: "tools" });
  parts.heads = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "layers and heads" });
  parts.says = element("p", { class: "quiet", role: "status" });
  return element("section", { "aria-labelledby": "heads-title", class: "wide" },
    element("h2", { id: "heads-title" }, "Layers and heads"), parts.measures, parts.heads, parts.says);
}

function measures() {
  const here = Object.keys(MEASURES).filter((name) => shown[name]);
  return here.map((name) => [name, `${MEASURES[name]}, here`]).concat(given.has_probe
    ? [["probe-locality", "locality of positions"], ["probe-symmetry", "symmetry of positions"]] : []);
}

function showHeads() {
  const names = measures();
  // What takes a while is measured where it is chosen, never by itself.
  const here = names.find(([name]) => !name.startsWith("probe"));
  const chosen = names.some(([name]) => name === state.measure) ? state.measure : here?.[0];
  replace(parts.measures, names.map(([name, text]) => element("button", {
    "data-key": `measure-${name}`, "aria-pressed": String(name === chosen), onclick: () => { state.measure = name; attempt(measure); },
  }, text)));
  drawHeads(chosen);
  if (chosen?.startsWith("probe") && !probe) attempt(measure);
}

async function measure() {
  if (state.measure.startsWith("probe")) probe ??= await ask("probe", {});
  await show();
}

const SAYS = {
  beside: "The share of attention that goes to none of the elements: to the null token, a mask or special tokens.",
  locality: "The mass near the diagonal, halved with each step of distance: 1 where each attends to itself alone.",
  symmetry: "Whether equal distances to both sides weigh alike: 1 where they do.",
};

function drawHeads(chosen) {
  const name = chosen?.replace("probe-", "");
  const numbers = chosen?.startsWith("probe") ? probe?.[name] : shown[name];
  if (!numbers) {
    replace(parts.heads, element("p", { class: "quiet" }, chosen ? "Measuring …" : "Nothing is measured yet."));
    parts.says.textContent = "";
    return;
  }
  const cell = (number, layer, head) => {
    const shade = element("span", { class: "shade" });
    shade.style.opacity = Math.min(1, Math.max(0, number ?? 0));
    const says = `layer ${layer + 1}, head ${head + 1}`;
    return element("td", { "data-head": number }, shade, element("button", {
      class: "name", "data-key": `head-${layer}-${head}`, "aria-label": `${says}: ${plain(number)}`,
      "aria-pressed": String(state.layer === layer + 1 && state.head === head + 1),
      onclick: () => set({ layer: layer + 1, head: head + 1 }),
    }, number === null ? "–" : number.toFixed(2)));
  };
  replace(parts.heads, element("table", { class: "heat" }, element("thead", {}, element("tr", {}, element("td", {}),
    numbers[0].map((_, head) => element("th", { scope: "col" }, `head ${head + 1}`)))),
  element("tbody", {}, numbers.map((row, layer) => element("tr", {}, element("th", { scope: "row" }, `layer ${layer + 1}`),
    row.map((number, head) => cell(number, layer, head)))))));
  const of = chosen.startsWith("probe")
    ? ` Of sentences of ${probe.length} times the same word, of ${probe.n_words} words: attention to positions alone.` : "";
  parts.says.textContent = SAYS[name] + of;
}
