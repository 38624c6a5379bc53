// Whether probabilities come true: of values, where they fall; of labels and items, how often.

import { drawing, element, percent } from "./dom.js";
import { cell, count, table } from "./tables.js";

const [WIDE, HIGH, EDGE] = [480, 200, 24];
const NORMAL = 1.96;

export function comeTrue(answer) {
  const own = answer.kind === "values" ? ofValues(answer) : ofChoices(answer);
  return answer.chosen ? [element("p", {}, `This slice was made by ${answer.column} itself, which no model knows before: there probabilities are not expected to come true.`), ...own] : own;
}

function ofValues({ share, spread, n, intervals }) {
  const even = 1 / share.length;
  const top = Math.max(...share, ...spread.map((own) => even + NORMAL * own)) * 1.05;
  const y = (number) => HIGH - EDGE - (HIGH - EDGE - 6) * (number / top);
  const width = (WIDE - EDGE) / share.length;
  const bars = share.map((own, k) => drawing("rect", {
    class: "curve", x: EDGE + k * width + 1, width: width - 2, y: y(own), height: HIGH - EDGE - y(own), "data-share": own,
  }));
  const band = spread.map((own, k) => drawing("rect", {
    class: "band", x: EDGE + k * width, width, y: y(even + NORMAL * own),
    height: y(Math.max(0, even - NORMAL * own)) - y(even + NORMAL * own),
  }));
  const line = drawing("line", { class: "range", x1: EDGE, x2: WIDE, y1: y(even), y2: y(even) });
  const text = `shares of ${count(n)} values in equal parts of their distributions, from ${percent(Math.min(...share))} to ${percent(Math.max(...share))}`;
  return [
    drawing("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": text }, ...band, ...bars, line,
      words(EDGE, HIGH - 6, "low"), words(WIDE - 30, HIGH - 6, "high")),
    element("p", { class: "quiet" }, `Where ${count(n)} values fall in their predicted distributions: all bars alike if these are right. ` +
      "High ends: too narrow; a hill: too wide; a slope: means are off. In the band are 95 of 100 bars by chance."),
    table("How many central intervals hold their value", ["interval", "values inside", "by chance"], intervals.map((own) =>
      element("tr", {}, element("th", { scope: "row" }, percent(own.level)),
        cell(percent(own.observed), { "data-level": own.level, "data-observed": own.observed }),
        cell(`± ${percent(NORMAL * (own.spread ?? 0))}`)))),
  ];
}

// Both axes are logarithms: bins halve.
function ofChoices({ bins, n, of, error }) {
  const seen = bins.filter((own) => own.observed > 0);
  const least = Math.log(Math.min(...seen.flatMap((own) => [own.predicted, own.observed]), 0.5));
  const x = (number) => EDGE + (WIDE - EDGE - 8) * (1 - Math.log(number) / least);
  const y = (number) => HIGH - EDGE - (HIGH - EDGE - 8) * (1 - Math.log(number) / least);
  const low = Math.exp(least);
  const dots = seen.map((own) => drawing("circle", { class: "dot", cx: x(own.predicted), cy: y(own.observed), r: 4 }));
  const spans = seen.map((own) => drawing("line", {
    class: "range", x1: x(own.predicted), x2: x(own.predicted),
    y1: y(Math.max(low, own.predicted - NORMAL * own.spread)), y2: y(Math.min(1, own.predicted + NORMAL * own.spread)),
  }));
  const even = drawing("line", { class: "line", x1: x(low), y1: y(low), x2: x(1), y2: y(1) });
  const text = `how often labels or items occurred beside their probability, of ${count(n)} targets; the table has the numbers`;
  return [
    drawing("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": text }, even, ...spans, ...dots,
      words(WIDE - 90, HIGH - 6, "predicted →"), words(2, 12, "↑ occurred")),
    element("p", { class: "quiet", "data-error": error }, `All probabilities of ${count(n)} targets${
      of === undefined ? "" : ` (of ${count(of)} that are drawn)`}, in bins of a factor of two: on the line they come true; the strokes are where 95 of 100 dots would be by chance. Expected calibration error ${percent(error)}.`),
    table("Probabilities and how often they came true", ["mean probability", "occurred", "by chance", "pairs"], bins.map((own) =>
      element("tr", {}, element("th", { scope: "row", "data-predicted": own.predicted }, percent(own.predicted)),
        cell(percent(own.observed), { "data-observed": own.observed }), cell(`± ${percent(NORMAL * own.spread)}`), cell(count(own.pairs))))),
  ];
}

function words(x, y, text) {
  return drawing("text", { class: "words", x, y }, text);
}
