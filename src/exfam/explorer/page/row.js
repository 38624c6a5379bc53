// A row of a table: any cell edited, emptied or restored, and what follows for all others.

import * as address from "./address.js";
import { ask, attempt, latest } from "./ask.js";
import { curve, shares } from "./curves.js";
import { disable, element, replace, signed } from "./dom.js";
import { contributions } from "./tables.js";

const UNLIKELY = 0.01;
const state = { index: null, original: {}, cells: {}, column: null };
const parts = {};
let given;

export async function open(view, start) {
  given = start;
  parts.answers = given.parts.map(() => latest());
  [parts.joint, parts.whole, parts.tails] = [latest(), { log_prob: null }, new Map()];
  parts.why = latest();
  parts.cells = new Map(given.columns.map((column) => [column.name, cellOf(column)]));
  parts.summary = element("p", { role: "status" });
  parts.whyOf = element("div", {});
  view.replaceChildren(
    element("section", { "aria-labelledby": "row-title" },
      element("h2", { id: "row-title" }, "The row"), tools(), parts.summary,
      element("div", { class: "cells" }, [...parts.cells.values()].map((cell) => cell.box))),
    element("section", { "aria-labelledby": "why-title" },
      element("h2", { id: "why-title" }, "Why"), parts.whyOf));
  await restore();
}

export async function restore() {
  const fields = address.read();
  const index = fields.get("index");
  if (given.n_rows) await take(Math.min(given.n_rows - 1, Number(index ?? 0) || 0), false);
  const kept = address.json(fields.get("cells"));
  if (kept !== null && typeof kept === "object" && !Array.isArray(kept)) state.cells = kept;
  state.column = parts.cells.has(fields.get("column")) ? fields.get("column") : null;
  await show();
}

function tools() {
  const index = element("input", {
    type: "number", id: "index", min: 0, max: given.n_rows - 1, step: 1,
    onchange: () => attempt(() => take(Number(index.value))),
  });
  parts.index = index;
  const step = (by) => () => attempt(() => take(state.index + by));
  return element("div", { class: "tools" },
    given.n_rows ? [
      element("label", { for: "index" }, "Row"), index,
      element("span", { class: "quiet" }, `0 to ${(given.n_rows - 1).toLocaleString("en")}`),
      element("button", { onclick: step(-1) }, "Before"), element("button", { onclick: step(1) }, "Next"),
    ] : [],
    given.n_rows && !given.fixed
      ? element("button", { onclick: () => { state.cells = { ...state.original }; attempt(show); } }, "Restore all") : null,
    given.fixed ? null : element("button", { onclick: () => { state.cells = {}; attempt(show); } }, "Empty all"));
}

async function take(index, shows = true) {
  if (!Number.isInteger(index) || index < 0 || index >= given.n_rows) return;
  const { cells } = await ask("row", { index });
  state.index = index;
  parts.index.value = index;
  state.original = Object.fromEntries(Object.entries(cells).filter(([, value]) => value !== null));
  state.cells = { ...state.original };
  if (shows) await show();
}

function set(name, value) {
  if (value === null) delete state.cells[name];
  else state.cells[name] = value;
  attempt(show);
}

async function show() {
  const { cells, column, index } = state;
  const changed = JSON.stringify(cells) !== JSON.stringify(state.original);
  address.write({ index: index ?? "", cells: changed ? JSON.stringify(cells) : "", column: column ?? "" });
  for (const [name, cell] of parts.cells) cell.edit(cells[name] ?? null);
  parts.tails.clear();
  const tasks = given.parts.map((columns, k) => parts.answers[k](ask("answer", { cells, columns }), showAnswer));
  tasks.push(parts.joint(ask("joint", { cells }), showJoint));
  if (column === null) {
    replace(parts.whyOf, element("p", { class: "quiet" }, "Choose a column to see what each cell adds to its prediction."));
  } else {
    tasks.push(parts.why(ask("why", { cells, column }), showWhy));
  }
  await Promise.all(tasks);
}

function showAnswer({ columns }) {
  for (const [name, own] of Object.entries(columns)) {
    const cell = parts.cells.get(name);
    cell.box.classList.toggle("asked", name === state.column);
    cell.box.classList.toggle("unlikely", own.tail !== null && own.tail < UNLIKELY);
    parts.tails.set(name, own.tail);
    cell.show(own, state.cells[name] ?? null);
  }
  showSummary();
}

function showJoint(own) {
  parts.whole = own;
  showSummary();
}

function showSummary() {
  const { log_prob: joint, condition_log_prob: condition } = parts.whole;
  const least = [...parts.tails].filter(([, tail]) => tail !== null && tail < UNLIKELY).sort((one, other) => one[1] - other[1]);
  const texts = [];
  if (joint !== null) texts.push(`log p(row) = ${joint.toFixed(3)} nats.`);
  if (condition !== undefined && condition !== null) texts.push(`The conditions have log-probability ${condition.toFixed(3)} nats.`);
  if (least.length) texts.push(`Unlikely given the rest: ${least.map(([name]) => name).join(", ")}.`);
  else if (joint !== null) texts.push("No cell is unlikely given the rest.");
  parts.summary.textContent = texts.join(" ");
  if (joint !== null) parts.summary.dataset.logProb = joint;
  else delete parts.summary.dataset.logProb;
}

function showWhy(why) {
  const of = why.output === null ? "its location" : `the log-odds of ${why.output}`;
  replace(parts.whyOf,
    element("h3", {}, why.column),
    why.entries.length ? contributions(`What each cell adds to ${of}, beside an average row`, why.entries)
      : element("p", { class: "quiet" }, "No known cell adds anything that is known exactly."),
    why.total === undefined || why.total === null ? null
      : element("p", { class: "quiet" }, `Start ${signed(why.start)}, parts without exact shares ${signed(why.rest)}, in all ${signed(why.total)}.`));
}

// ---- a cell

function cellOf(column) {
  const edit = element("div", { class: "edit" });
  const picture = element("div", {});
  const name = column.predicted
    ? element("button", { class: "name", onclick: () => { state.column = column.name; attempt(show); } }, column.name)
    : element("span", {}, column.name);
  const box = element("div", { class: "cell", "data-column": column.name },
    element("h3", {}, name, element("span", { class: "quiet kind" }, column.kind)), edit, picture);
  return {
    box,
    edit: (value) => {
      replace(edit, editors(column, value));
      if (given.fixed) disable(edit);
    },
    show: (own, value) => replace(picture, own.labels ? shares(own, value) : curve(own, value, column.name)),
  };
}

// As many digits as fit; the number itself is kept until another is typed.
function typed(number) {
  return Number(number.toPrecision(7));
}

function editors(column, value) {
  const { name, labels, kind } = column;
  const condition = value !== null && typeof value === "object";
  const modes = { empty: "empty", value: "is", ...(kind === "date" ? {} : { condition: labels ? "one of" : "range" }) };
  const mode = value === null ? "empty" : condition ? "condition" : "value";
  const start = () => state.original[name] ?? (labels ? labels[0] : 0);
  const choose = element("select", {
    "data-key": `mode-${name}`, "aria-label": `What is known of ${name}`,
    onchange: () => {
      if (choose.value === "empty") set(name, null);
      else if (choose.value === "value") set(name, start());
      else set(name, labels ? { one_of: [start()] } : { low: start(), high: start() });
    },
  }, Object.entries(modes).map(([key, text]) => element("option", { value: key, selected: key === mode }, text)));
  const fields = mode === "empty" ? [] : condition ? conditionFields(column, value) : [valueField(column, value)];
  const original = state.original[name];
  const restores = original !== undefined && JSON.stringify(original) !== JSON.stringify(value);
  return [choose, ...fields,
    restores ? element("button", { "data-key": `restore-${name}`, onclick: () => set(name, original) }, "Restore") : null];
}

function valueField({ name, labels, kind }, value) {
  const common = { "data-key": `value-${name}`, "aria-label": name };
  if (labels) {
    const select = element("select", { ...common, onchange: () => set(name, labels[select.value]) },
      labels.map((label, k) => element("option", { value: k, selected: label === value }, String(label))));
    return select;
  }
  const text = kind === "date";
  const input = element("input", {
    ...common, type: text ? "text" : "number", step: "any", value: text ? value : typed(value),
    onchange: () => { if (input.value !== "") set(name, text ? input.value : Number(input.value)); },
  });
  return input;
}

function conditionFields({ name, labels }, value) {
  if (labels) {
    const select = element("select", {
      multiple: true, "data-key": `set-${name}`, "aria-label": `${name} is one of`,
      onchange: () => {
        const chosen = [...select.selectedOptions].map((option) => labels[option.value]);
        if (chosen.length) set(name, { one_of: chosen });
      },
    }, labels.map((label, k) => element("option", { value: k, selected: value.one_of.includes(label) }, String(label))));
    return [select];
  }
  return ["low", "high"].map((end) => {
    const input = element("input", {
      type: "number", step: "any", value: value[end] ?? "", "data-key": `${end}-${name}`,
      "aria-label": `${name}, ${end === "low" ? "at least" : "at most"}`,
      onchange: () => set(name, { ...value, [end]: input.value === "" ? null : Number(input.value) }),
    });
    return input;
  });
}
