// Tables of numbers that scroll where they are too wide.

import { bar, element, signed } from "./dom.js";

export function count(number) {
  return number.toLocaleString("en");
}

export function nats(number) {
  return number === null ? "–" : number.toFixed(3).replace("-", "−");
}

export function cell(text, attributes = {}) {
  return element("td", { class: "number", ...attributes }, text);
}

export function table(caption, heads, rows) {
  return element("div", { class: "scrolls", tabindex: 0, role: "group", "aria-label": caption },
    element("table", {}, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col" }, head)))),
      element("tbody", {}, rows)));
}

// What each of some entries, with a name and a contribution, adds: as bars and as numbers.
export function contributions(caption, entries, digits = 3) {
  const largest = Math.max(...entries.map((one) => Math.abs(one.contribution)), 1e-12);
  return element("table", {}, element("caption", {}, caption), element("tbody", {}, entries.map((one) => element("tr", {},
    element("th", { scope: "row" }, one.name),
    element("td", {}, bar(one.contribution / largest)),
    element("td", { class: "number", "data-contribution": one.contribution }, signed(one.contribution, digits))))));
}
