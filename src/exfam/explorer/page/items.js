// Baskets and histories: items clicked in and out, what comes next, and why.

import * as address from "./address.js";
import { ask, attempt, latest } from "./ask.js";
import { bar, element, percent, replace, signed } from "./dom.js";

const names = new Map();
const state = { items: [], before: [], item: null };
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
  state.before = state.items;
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
  if (given.repeats || !state.items.includes(code)) change([...state.items, code]);
}

function change(items) {
  state.before = state.items;
  state.items = items;
  attempt(show);
}

function choose(code) {
  state.item = code;
  attempt(show);
}

async function show() {
  const { items, item } = state;
  address.write({ items: items.join(","), item: item ?? "" });
  showContext();
  const question = { items, before: state.before, also: item === null ? [] : [item] };
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
  return element("section", { "aria-labelledby": "context-title" },
    element("h2", { id: "context-title" }, given.ordered ? "History" : "Basket"),
    parts.chips,
    element("label", { for: "search" }, `Add to the ${what}`), search, parts.status, parts.list,
    given.n_groups ? groupPanel() : null);
}

async function find() {
  const text = parts.search.value;
  const answer = await ask("search", { text });
  if (text !== parts.search.value) return;
  remember(answer.items);
  parts.found(answer.items, answer.n_found);
}

function groupPanel() {
  const list = element("ul", { class: "found" });
  const look = async (text) => {
    const { groups } = await ask("group", { text });
    replace(list, groups.map((one) => element("li", {}, element("button", {
      "data-key": `group-${one.index}`,
      onclick: () => attempt(async () => {
        const { items } = await ask("group", { index: one.index });
        remember(items);
        change(items.map((own) => own.code));
      }),
    }, one.name))));
  };
  const input = element("input", {
    type: "search", id: "group", autocomplete: "off", oninput: () => attempt(() => look(input.value)),
  });
  return element("details", { ontoggle: () => attempt(() => look(input.value)) },
    element("summary", {}, `Begin with one of ${given.n_groups.toLocaleString("en")} groups`),
    element("label", { for: "group" }, "Search"), input, list);
}

function showContext() {
  const chips = state.items.map((code, k) => element("li", {}, element("button", {
    "data-key": `chip-${k}`, title: "Take out", "aria-label": `Take out ${names.get(code)}`,
    onclick: () => change(state.items.filter((_, other) => other !== k)),
  }, names.get(code), element("span", { "aria-hidden": "true" }, " ×"))));
  if (!chips.length) chips.push(element("li", { class: "quiet" }, "Nothing yet"));
  replace(parts.chips, chips);
}

// ---- what comes next

function nextPanel() {
  parts.bars = element("ol", { class: "bars", id: "next" });
  parts.next = latest();
  return element("section", { "aria-labelledby": "next-title" },
    element("h2", { id: "next-title" }, given.ordered ? "What comes next" : "What else is in it"),
    element("p", { class: "quiet" },
      "Probability of each further item; the line is where it was before the last change."),
    parts.bars);
}

function showNext({ items }) {
  remember(items);
  const largest = Math.max(...items.flatMap((one) => [one.probability, one.before]), 1e-12);
  replace(parts.bars, items.map((one) => {
    const moved = one.probability - one.before;
    return element("li", { class: one.code === state.item ? "chosen" : "", "data-code": one.code },
      element("button", {
        class: "name", "data-key": `why-${one.code}`, onclick: () => choose(one.code),
        "aria-pressed": String(one.code === state.item),
      }, one.name),
      bar(one.probability / largest, { before: one.before / largest }),
      element("span", { class: "number", "data-probability": one.probability },
        percent(one.probability)),
      element("span", { class: moved < 0 ? "moved down" : "moved" },
        moved ? signed(100 * moved, 2) : ""),
      element("button", {
        class: "add", "data-key": `add-${one.code}`, "aria-label": `Add ${one.name}`,
        onclick: () => add(one.code),
      }, "+"));
  }));
}

// ---- why

function whyPanel() {
  parts.reasons = latest();
  parts.raising = latest();
  parts.related = latest();
  parts.reasonsOf = element("div");
  parts.raisingOf = element("div");
  parts.relatedOf = element("div");
  return element("section", { "aria-labelledby": "why-title", class: "wide" },
    element("h2", { id: "why-title" }, "Why"),
    element("div", { class: "three" }, parts.reasonsOf, parts.raisingOf, parts.relatedOf));
}

async function showWhy() {
  const { items, item } = state;
  if (item === null) {
    replace(parts.reasonsOf, element("p", { class: "quiet" }, "Choose an item to see what raises it."));
    replace(parts.raisingOf);
    replace(parts.relatedOf);
    return;
  }
  const tasks = [
    parts.raising(ask("raise", { items, item }), showRaising),
    parts.related(ask("related", { item }), showRelated),
  ];
  if (given.explains) tasks.push(parts.reasons(ask("why", { items, item }), showReasons));
  else replace(parts.reasonsOf, element("p", { class: "quiet" }, "This model has no base whose parts add up."));
  await Promise.all(tasks);
}

function showReasons(why) {
  const largest = Math.max(...why.entries.map((one) => Math.abs(one.contribution)), 1e-12);
  const rows = why.entries.map((one) => element("tr", {},
    element("th", { scope: "row" }, one.name + (one.lag ? `, ${one.lag} before` : "")),
    element("td", {}, bar(one.contribution / largest)),
    element("td", { class: "number", "data-contribution": one.contribution }, signed(one.contribution))));
  const left = why.n_entries - why.entries.length;
  replace(parts.reasonsOf,
    element("h3", {}, why.name),
    element("p", {}, "Probability ", element("strong", { "data-why": why.probability }, percent(why.probability)),
      `; by the base alone ${percent(why.alone)}. Attention adds ${signed(why.correction)} nats to its output.`),
    element("table", {}, element("caption", {}, "What each item adds to the base's score, exactly"),
      element("tbody", {}, rows)),
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
    element("button", {
      class: "add", "aria-label": `Add ${one.name}`, onclick: () => add(one.code),
    }, "+"))));
}
