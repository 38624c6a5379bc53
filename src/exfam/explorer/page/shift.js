// What has moved between two data sets.

import { bar, element, percent, plain } from "./dom.js";
import { cell, count, nats, table } from "./tables.js";

export function movedTable(answer, { units }, chosen, choose) {
  const { rows, n, of, level } = answer;
  const drawn = n.map((own, k) => (own < of[k] ? `${count(own)} of ${count(of[k])}` : count(own)));
  const name = (part) => (answer.has_bars ? element("button", {
    class: "name", "data-key": `moved-${part.name}`, "aria-pressed": String(part.name === chosen),
    onclick: () => choose(part.name),
  }, part.name) : part.name);
  return [
    element("p", { "data-train": rows.train, "data-new": rows.new },
      `Mean log p ${nats(rows.train)} in the data (${drawn[0]} ${units}), ${nats(rows.new)} in the others (${drawn[1]}): ` +
      `a difference of ${nats(rows.difference)} ± ${nats(rows.error)} (standard error).`),
    table(`Marked: the chance of any false mark in a column is ${level} (Bonferroni)`,
      ["", answer.own, "p", "mean log p given all else", "z", "moved"], answer.parts.map((part) =>
        element("tr", { class: part.moved || part.surprising ? "chosen" : "", "data-part": part.name },
          element("th", { scope: "row" }, name(part)),
          cell(`${plain(part.own.train)} → ${plain(part.own.new)}`, { "data-own": part.own.new }),
          cell(part.p === null ? "–" : part.p.toPrecision(2)),
          cell(`${nats(part.nats.train)} → ${nats(part.nats.new)}`, { "data-nats": part.nats.new }),
          cell(part.nats.z === null ? "–" : part.nats.z.toFixed(1)),
          element("td", {}, [part.moved ? "itself" : "", part.surprising ? "given others" : ""].filter(Boolean).join(", "))))),
  ];
}

export function barsOfBoth({ labels, before, after }, name) {
  const largest = Math.max(...before, ...after, 1e-12);
  return [
    element("h3", {}, name),
    table("Shares in the data, and in the others", ["", "data", "", "others", ""], labels.map((label, k) => element("tr", {},
      element("th", { scope: "row" }, label),
      element("td", {}, bar(before[k] / largest)), cell(percent(before[k]), { "data-before": before[k] }),
      element("td", {}, bar(after[k] / largest)), cell(percent(after[k]), { "data-after": after[k] })))),
  ];
}
