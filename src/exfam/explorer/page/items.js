// Baskets and histories: items clicked in and out, what comes next, and why.

import * as address from "./address.js";
import { ask, attempt, latest } from "./ask.js";
import { curve, shares } from "./curves.js";
import { bar, element, percent, plain, replace, signed } from "./dom.js";
import { contributions } from "./tables.js";

const names = new Map();
// `values` and `beforeValues` stand beside items, null where none is known.
const state = { items: [], values: [], before: [], beforeValues: [], item: null };
const parts = {};
let given;

export async function open(view, start) {
  given = start;
  remember(start.items);
  view.className = "two";
  view.replaceChildren(contextPanel(), nextPanel(), whyPanel());
  await restore();
}

export async function restore() {
  const fields = address.read();
  state.items = address.codes(fields.get("items"));
  const values = given.value ? address.json(fields.get("values")) : null;
  state.values = state.items.map((_, k) => (typeof values?.[k] === "number" ? values[k] : null));
  [state.before, state.beforeValues] = [state.items, state.values];
  [state.item = null] = address.codes(fields.get("item"));
  const unnamed = [...state.items, state.item ?? []].flat().filter((code) => !names.has(code));
  if (unnamed.length) remember((await ask("search", { codes: unnamed })).items);
  parts.found(given.items);
  await show();
}

function remember(items) {
  for (const { code, name } of items) names.set(code, name);
}

function add(code) {
  if (given.repeats || !state.items.includes(code)) change([...state.items, code], [...state.values, null]);
}

function change(items, values) {
  [state.before, state.beforeValues] = [state.items, state.values];
  [state.items, state.values] = [items, values];
  attempt(show);
}

function setValue(k, value) {
  change(state.items, state.values.map((own, other) => (other === k ? value : own)));
}

// The items, and the values beside them where one is known.
function context() {
  const { items, values } = state;
  return values.some((value) => value !== null) ? { items, values } : { items };
}

function choose(code) {
  state.item = code;
  attempt(show);
}

async function show() {
  const { items, item } = state;
  const { values } = context();
  address.write({ items: items.join(","), values: values ? JSON.stringify(values) : "", item: item ?? "" });
  showContext();
  const question = {
    ...context(), before: state.before, before_values: state.beforeValues, also: item === null ? [] : [item],
  };
  await Promise.all([parts.next(ask("next", question), showNext), showWhy()]);
}

// ---- the context

function contextPanel() {
  const search = element("input", {
    type: "search", id: "search", autocomplete: "off", "aria-controls": "found",
    oninput: () => attempt(find),
    onkeydown: (event) => {
      const first = parts.list.querySelector("button");
      if (event.key === "Enter" && first) first.click();
    },
  });
  parts.search = search;
  parts.chips = element("ol", { class: "chips", id: "context", "aria-label": "Context" });
  parts.list = element("ul", { id: "found", class: "found" });
  parts.status = element("p", { class: "quiet", role: "status" });
  parts.found = (items, count) => {
    parts.status.textContent =
      count === undefined ? "The most probable items:" : `${count.toLocaleString("en")} found`;
    replace(parts.list, items.map((one) => element("li", {}, element("button", {
      "data-key": `found-${one.code}`, onclick: () => add(one.code),
    }, one.name))));
  };
  const what = given.ordered ? "history, in its order" : "basket";
  const kind = given.is_sequence ? "A sequence: the order of its items counts." : "A set: the order of its items counts for nothing.";
  const values = given.value ? ` Beside each item is its ${given.value.column}, if it is known.` : "";
  // In a page whose answers were written beforehand only groups of the data are looked at.
  const adding = given.fixed ? [] : [element("label", { for: "search" }, `Add to the ${what}`), search, parts.status, parts.list];
  return element("section", { "aria-labelledby": "context-title" },
    element("h2", { id: "context-title" }, given.ordered ? "History" : "Basket"),
    element("p", { class: "quiet" }, kind + values), parts.chips, adding, given.n_groups ? groupPanel() : null);
}

async function find() {
  const text = parts.search.value;
  const answer = await ask("search", { text });
  if (text !== parts.search.value) return;
  remember(answer.items);
  parts.found(answer.items, answer.n_found);
}

function groupPanel() {
  const list = element("ul", { class: "found" }), found = latest();
  const look = (text) => found(ask("group", { text }), ({ groups }) => {
    replace(list, groups.map((one) => element("li", {}, element("button", {
      "data-key": `group-${one.index}`,
      onclick: () => attempt(async () => {
        const { items, values = items.map(() => null) } = await ask("group", { index: one.index });
        remember(items);
        change(items.map((own) => own.code), values);
      }),
    }, one.name))));
  });
  const input = element("input", {
    type: "search", id: "group", autocomplete: "off", oninput: () => attempt(() => look(input.value)),
  });
  return element("details", { open: given.fixed, ontoggle: () => attempt(() => look(input.value)) },
    element("summary", {}, `Begin with one of ${given.n_groups.toLocaleString("en")} groups`),
    element("label", { for: "group" }, "Search"), input, list);
}

function showContext() {
  const chips = state.items.map((code, k) => element("li", {}, element("button", {
    "data-key": `chip-${k}`, title: "Take out", "aria-label": `Take out ${names.get(code)}`,
    onclick: () => takeOut(k),
  }, names.get(code), element("span", { "aria-hidden": "true" }, " ×")), given.value ? valueField(code, k) : null));
  if (!chips.length) chips.push(element("li", { class: "quiet" }, "Nothing yet"));
  replace(parts.chips, chips);
}

// Of a history that was written beforehand what it began with is left.
function takeOut(k) {
  const stays = (_, other) => (given.fixed && given.ordered ? other < k : other !== k);
  change(state.items.filter(stays), state.values.filter(stays));
}

function valueField(code, k) {
  const { column, labels } = given.value;
  const common = { disabled: given.fixed, "data-key": `value-${k}`, "aria-label": `${column} of ${names.get(code)}` };
  const value = state.values[k];
  if (labels.length) {
    const select = element("select", {
      ...common, onchange: () => setValue(k, select.value === "" ? null : Number(select.value)),
    }, element("option", { value: "", selected: value === null }, "–"),
    labels.map((label) => element("option", { value: label, selected: label === value }, String(label))));
    return select;
  }
  const input = element("input", {
    ...common, type: "number", step: "any", value: value ?? "",
    onchange: () => setValue(k, input.value === "" ? null : Number(input.value)),
  });
  return input;
}

// ---- what comes next

function nextPanel() {
  parts.bars = element("ol", { class: "bars", id: "next" });
  parts.next = latest();
  return element("section", { "aria-labelledby": "next-title" },
    element("h2", { id: "next-title" }, !given.predicts_items ? `What would have the highest ${given.value.column}`
      : given.ordered ? "What comes next" : "What else is in it"),
    element("p", { class: "quiet" }, given.predicts_items ? "Probability of each further item" : "Of frequent items",
      "; the line is where it was before the last change.",
      given.value ? ` Below a name: the ${given.value.column} that it would have, and 90 % of it.` : ""),
    parts.bars);
}

// What is drawn of an item: its probability, or the middle of its value where there is no other.
function drawn(one) {
  return given.predicts_items ? one.probability : one.value.center;
}

function showNext({ items }) {
  remember(items);
  const numbers = items.flatMap((one) => [drawn(one), one.before ?? drawn(one)]);
  const least = given.predicts_items ? 0 : Math.min(...numbers);
  const range = Math.max(Math.max(...numbers) - least, 1e-12);
  replace(parts.bars, items.map((one) => {
    const now = drawn(one), moved = one.before === null ? 0 : now - one.before;
    return element("li", { class: one.code === state.item ? "chosen" : "", "data-code": one.code },
      element("button", {
        class: "name", "data-key": `why-${one.code}`, onclick: () => choose(one.code),
        "aria-pressed": String(one.code === state.item),
      }, one.name, one.value ? element("span", { class: "quiet would", "data-would": one.value.center },
        `${plain(one.value.center)} (${plain(one.value.low)} to ${plain(one.value.high)})`) : null),
      bar((now - least) / range, { before: one.before === null ? null : (one.before - least) / range }),
      element("span", { class: "number", "data-probability": one.probability },
        given.predicts_items ? percent(now) : plain(now)),
      element("span", { class: moved < 0 ? "moved down" : "moved" },
        moved ? signed(given.predicts_items ? 100 * moved : moved, 2) : ""),
      adder(one, `add-${one.code}`));
  }));
}

// ---- why

function whyPanel() {
  parts.reasons = latest();
  parts.raising = latest();
  parts.related = latest();
  parts.value = latest();
  parts.valueOf = element("div");
  parts.reasonsOf = element("div");
  parts.raisingOf = element("div");
  parts.relatedOf = element("div");
  return element("section", { "aria-labelledby": "why-title", class: "wide" },
    element("h2", { id: "why-title" }, "Why"),
    parts.valueOf, element("div", { class: "three" }, parts.reasonsOf, parts.raisingOf, parts.relatedOf));
}

async function showWhy() {
  const { item } = state;
  if (item === null) {
    replace(parts.valueOf);
    replace(parts.reasonsOf, element("p", { class: "quiet" }, "Choose an item to see what raises it."));
    replace(parts.raisingOf);
    replace(parts.relatedOf);
    return;
  }
  const tasks = given.predicts_items ? [parts.related(ask("related", { item }), showRelated)] : [];
  if (given.raises) tasks.push(parts.raising(ask("raise", { ...context(), item }), showRaising));
  if (given.explains) tasks.push(parts.reasons(ask("why", { ...context(), item }), showReasons));
  else replace(parts.reasonsOf, element("p", { class: "quiet" }, "This model has no base whose parts add up."));
  if (given.value) tasks.push(parts.value(ask("value", valueQuestion(item)), showValue));
  await Promise.all(tasks);
}

// Of an item that is there, its own value given the others; of another, that as a further one.
function valueQuestion(item) {
  const element = state.items.indexOf(item);
  return { ...context(), ...(element < 0 ? { item } : { element }) };
}

function showValue(own) {
  const at = state.items.indexOf(own.code);
  const { column } = given.value;
  const typed = at < 0 ? null : state.values[at];
  const says = at < 0 ? `${column} of ${own.name} as a further one` : `${column} of ${own.name}, by the others`;
  replace(parts.valueOf, element("h3", {}, says), element("div", { class: "value" },
    own.labels ? shares(own, typed) : curve(own, typed, column)));
}

function distance(lag) {
  if (!lag) return "";
  return lag > 0 ? `, ${lag} before` : `, ${-lag} after`;
}

function showReasons(why) {
  const left = why.n_entries - why.entries.length;
  replace(parts.reasonsOf,
    element("h3", {}, why.name),
    element("p", {}, "Probability ", element("strong", { "data-why": why.probability }, percent(why.probability)),
      `; by the base alone ${percent(why.alone)}. Attention adds ${signed(why.correction)} nats to its output` +
      `${why.classes ? `, the kind of group ${signed(why.classes)}` : ""}.`),
    contributions("What each item adds to the base's score, exactly", why.entries.map((one) => (
      { ...one, name: one.name + distance(one.lag) }))),
    element("p", { class: "quiet" }, `Score ${signed(why.score)}${left > 0 ? `; ${left} smaller parts are not shown` : ""}.`));
}

function showRaising({ probability, items, n_tried }) {
  remember(items);
  replace(parts.raisingOf,
    element("h3", {}, "What would make it likelier"),
    items.length ? itemList(items, (one) => `${percent(probability)} → ${percent(one.probability)}`)
      : element("p", { class: "quiet" }, `None of ${n_tried} items that go with it does.`));
}

function showRelated(related) {
  remember([...related.complements, ...related.substitutes]);
  replace(parts.relatedOf,
    element("h3", {}, "Goes with"), itemList(related.complements, (one) => signed(one.strength, 2)),
    element("h3", {}, "Instead of"), itemList(related.substitutes, (one) => signed(one.strength, 2)));
}

function itemList(items, note) {
  return element("ul", { class: "listed" }, items.map((one) => element("li", {},
    element("button", { class: "name", onclick: () => choose(one.code) }, one.name),
    element("span", { class: "number" }, note(one)),
    adder(one))));
}

function adder({ code, name }, key = null) {
  if (given.fixed) return null;
  return element("button", { class: "add", "data-key": key, "aria-label": `Add ${name}`, onclick: () => add(code) }, "+");
}
