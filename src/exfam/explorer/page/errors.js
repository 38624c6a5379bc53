// Errors: what was badly predicted, where, by which model, whether it is sure, and what has moved.

import * as address from "./address.js";
import { ask, attempt, latest } from "./ask.js";
import { comeTrue } from "./calibration.js";
import { bar, element, replace, signed } from "./dom.js";
import { barsOfBoth, movedTable } from "./shift.js";
import { cell, count, nats, table } from "./tables.js";

const EMPTY = {
  of: "units", order: "total", first: 0, slicing: null, slice: null, by: "mean", from: 0, column: null, part: null,
};
const ORDERS = { total: "sum of log p", mean: "mean log p", least: "least log p" };
const SLICE_ORDERS = { mean: "mean log p", total: "sum of log p", n: "number", label: "their order" };
const NUMBERS = ["first", "from", "slice"];
const state = { ...EMPTY };
const parts = {};
let given;

export async function open(view, start) {
  given = start;
  for (const name of ["errors", "slices", "calibration", "shift", "bars"]) parts[`show_${name}`] = latest();
  view.className = "errors";
  view.replaceChildren(worstPanel(), slicesPanel(), calibrationPanel(), ...(given.compares ? [shiftPanel()] : []));
  await restore();
}

export async function restore() {
  const fields = address.read();
  for (const [name, usual] of Object.entries(EMPTY)) {
    const text = fields.get(name);
    state[name] = text === null ? usual : NUMBERS.includes(name) ? Math.max(0, Number(text) || 0) : text;
  }
  await show();
}

function set(changes) {
  Object.assign(state, changes);
  attempt(show);
}

async function show() {
  const kept = Object.entries(state).map(([name, value]) => [name, value === EMPTY[name] ? "" : value]);
  address.write(Object.fromEntries(kept));
  const { of, order, first, slicing, slice, by, from, column } = state;
  const chosen = slice === null ? {} : { slicing, slice };
  const named = slicing === null ? {} : { slicing };
  const tasks = [
    parts.show_errors(ask("errors", { of, order, first, ...chosen }), showWorst),
    parts.show_slices(ask("slices", { order: by, first: from, ...named }), showSlices),
    parts.show_calibration(ask("calibration", { ...chosen, ...(column === null ? {} : { column }) }), showCalibration),
  ];
  if (given.compares) tasks.push(showShift());
  await Promise.all(tasks);
}

// A first look is at a few; the others are scored meanwhile.
function scoreOthers() {
  parts.scoring ??= ask("score", {}).then(() => {
    if (address.shown.view === "errors") attempt(show);
  }, () => {});
}

function select(id, label, onchange) {
  const own = element("select", { id, onchange: () => onchange(own.value) });
  return [own, element("label", { for: id, class: "quiet" }, label)];
}

function fill(own, options, chosen) {
  replace(own, Object.entries(options).map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
}

function orders(own) {
  return given.against === null ? own : { ...own, difference: "difference to the other" };
}

// ---- the worst

function worstPanel() {
  const [of, ofLabel] = select("of", "Show", (value) => set({ of: value, first: 0 }));
  const [order, orderLabel] = select("order", "worst by", (value) => set({ order: value, first: 0 }));
  Object.assign(parts, {
    of, order, all: element("p", { role: "status" }), only: element("span", {}), worst: element("div", {}),
  });
  return element("section", { "aria-labelledby": "worst-title" },
    element("h2", { id: "worst-title" }, "Badly predicted"), parts.all,
    element("div", { class: "tools" }, ofLabel, of, orderLabel, order, parts.only), parts.worst);
}

function showWorst(answer) {
  fill(parts.of, { units: given.units, parts: given.parts }, state.of);
  fill(parts.order, orders(ORDERS), state.order);
  const { all, n_all: units, n_scored: scored } = answer;
  const drawn = scored < units ? ` ${count(scored)} of ${count(units)} ${given.units} are scored${answer.partial ? " so far: more are being scored" : ""}.` : "";
  if (answer.partial) scoreOthers();
  parts.all.dataset.mean = all.mean;
  replace(parts.all, `${given.model}: mean log p ${within(all)} over ${count(all.n)} terms of ${count(all.units)} ${given.units}.`,
    all.difference ? element("span", { "data-difference": all.difference.mean },
      ` Beyond the second model, ${given.against}: ${within(all.difference, signed)} nats each.`) : "", drawn);
  const shortfall = (row) => (row.mean === null || all.mean === null ? 0 : row.mean - all.mean);
  const largest = Math.max(...answer.rows.map((row) => Math.abs(shortfall(row))), 1e-12);
  const heads = [given[state.of].slice(0, -1), "terms", "sum of log p", "mean", "beside all", "least expected", "its log p"];
  if (given.against !== null) heads.splice(4, 0, "difference");
  replace(parts.worst, table("Log-probabilities in nats. A link opens what was least expected there, given all else.", heads,
    answer.rows.map((row) => element("tr", { "data-name": row.name },
      element("th", { scope: "row" }, row.name), cell(count(row.n)),
      cell(nats(row.total), { "data-total": row.total }), cell(nats(row.mean), { "data-mean": row.mean }),
      given.against === null ? null : cell(signed(row.difference), { "data-difference": row.difference }),
      element("td", {}, bar(shortfall(row) / largest)),
      element("td", {}, element("a", { href: `#${address.of(address.shown.first, row.least.address)}` }, leastOf(row))),
      cell(nats(row.least.nats), { "data-least": row.least.nats })))),
  pager(answer, (first) => set({ first }), "worst"));
}

// What the line itself does not say of its least expected term.
function leastOf({ least }) {
  const where = state.of === "units" ? least.part : least.unit;
  return where === least.value ? where : `${where}: ${least.value}`;
}

function pager({ first, page, n_rows: n }, go, key) {
  if (n <= page) return element("p", { class: "quiet" }, `${count(n)} in all`);
  const to = (target, text) => element("button", {
    "data-key": `${key}-${text}`, disabled: target < 0 || target >= n, onclick: () => go(target),
  }, text);
  return element("div", { class: "tools" }, to(first - page, "Before"), to(first + page, "Next"),
    element("span", { class: "quiet" }, `${count(first + 1)} to ${count(Math.min(first + page, n))} of ${count(n)}`));
}

// ---- slices

function slicesPanel() {
  const [slicing, slicingLabel] = select("slicing", "By", (value) => set({ slicing: value, slice: null, first: 0, from: 0 }));
  const [by, byLabel] = select("by", "in the order of", (value) => set({ by: value, from: 0 }));
  Object.assign(parts, { slicing, by, slices: element("div", {}) });
  return element("section", { "aria-labelledby": "slices-title" },
    element("h2", { id: "slices-title" }, "Slices"),
    element("div", { class: "tools" }, slicingLabel, slicing, byLabel, by), parts.slices);
}

function showSlices(answer) {
  fill(parts.slicing, Object.fromEntries(answer.slicings.map((name) => [name, name])), answer.slicing);
  fill(parts.by, orders(SLICE_ORDERS), state.by);
  state.slicing = answer.slicing;
  const ends = answer.rows.flatMap((row) => [row.low ?? row.mean, row.high ?? row.mean]).filter((end) => end !== null);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const heads = ["slice", "terms", "mean log p", "95 %", "interval"];
  if (given.against !== null) heads.push("difference", "95 %");
  const chosen = answer.rows.find((row) => row.slice === state.slice);
  replace(parts.only, state.slice === null ? "" : element("button", {
    "data-key": "all-slices", onclick: () => set({ slice: null, first: 0 }),
  }, `Only ${answer.slicing}${chosen ? `: ${chosen.name}` : ""} ×`));
  replace(parts.slices, table("Mean log p in nats, with its interval over independent " +
    `${given.units}. A slice that is chosen is what is listed above and calibrated below.`, heads,
  answer.rows.map((row) => element("tr", { class: row.slice === state.slice ? "chosen" : "", "data-slice": row.name },
    element("th", { scope: "row" }, element("button", {
      class: "name", "data-key": `slice-${row.slice}`, "aria-pressed": String(row.slice === state.slice),
      onclick: () => set({ slice: row.slice === state.slice ? null : row.slice, first: 0 }),
    }, row.name)),
    cell(count(row.n)), cell(nats(row.mean), { "data-mean": row.mean, "data-low": row.low, "data-high": row.high }),
    cell(`${nats(row.low)} to ${nats(row.high)}`), element("td", {}, interval(row, low, high)),
    given.against === null ? null : [
      cell(row.difference ? signed(row.difference.mean) : "–", { "data-difference": row.difference?.mean }),
      cell(row.difference ? `${signed(row.difference.low)} to ${signed(row.difference.high)}` : "–")]))),
  pager(answer, (from) => set({ from }), "slices"));
}

// A line from one end of the interval to the other, and its middle.
function interval({ mean, low, high }, least, most) {
  if (mean === null) return "";
  const at = (number) => `${(100 * (number - least)) / (most - least || 1)}%`;
  const line = element("span", { class: "span" });
  line.style.left = at(low ?? mean);
  line.style.width = `${(100 * ((high ?? mean) - (low ?? mean))) / (most - least || 1)}%`;
  const middle = element("span", { class: "before" });
  middle.style.left = at(mean);
  return element("span", { class: "track", "aria-hidden": "true" }, line, middle);
}

// ---- calibration and shift

function calibrationPanel() {
  const [column, label] = select("column", "Of", (value) => set({ column: value }));
  Object.assign(parts, { column, calibration: element("div", {}) });
  return element("section", { "aria-labelledby": "calibration-title" },
    element("h2", { id: "calibration-title" }, "Do probabilities come true?"),
    element("div", { class: "tools" }, label, column), parts.calibration);
}

function showCalibration(answer) {
  fill(parts.column, Object.fromEntries(answer.columns.map((name) => [name, name])), answer.column);
  replace(parts.calibration, comeTrue(answer));
}

function shiftPanel() {
  Object.assign(parts, { shift: element("div", {}), bars: element("div", {}) });
  return element("section", { "aria-labelledby": "shift-title" },
    element("h2", { id: "shift-title" }, "What has moved"), parts.shift, parts.bars);
}

async function showShift() {
  const { part } = state;
  await parts.show_shift(ask("shift", {}), (answer) => {
    parts.has_bars = answer.has_bars;
    replace(parts.shift, movedTable(answer, given, part, (name) => set({ part: name === part ? null : name })));
  });
  if (part === null || !parts.has_bars) replace(parts.bars);
  else await parts.show_bars(ask("shift_bars", { part }), (answer) => replace(parts.bars, barsOfBoth(answer, part)));
}

// ---- words

function within({ mean, low, high }, text = nats) {
  return low === null ? text(mean) : `${text(mean)} (95 %: ${text(low)} to ${text(high)})`;
}
