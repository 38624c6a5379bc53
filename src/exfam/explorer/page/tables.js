// Tables of numbers that scroll where they are too wide.

import { element } from "./dom.js";

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
