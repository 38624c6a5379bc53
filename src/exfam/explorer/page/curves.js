// Distributions of one value: bars of labels, or a curve with its interval.

import { bar, drawing, element, percent, plain } from "./dom.js";

export function shares(own, value) {
  const rows = own.labels.map(({ label, probability }) => element("li", { class: label === value ? "own" : "" },
    element("span", {}, String(label)),
    bar(probability),
    element("span", { class: "number", "data-probability": probability }, percent(probability))));
  const left = own.n_labels - own.labels.length;
  return [element("ol", { class: "shares" }, rows),
    left > 0 ? element("p", { class: "quiet" }, `and ${left} more`) : null, surprise(own)];
}

export function curve(own, value, name) {
  const { points, density, low, high, center } = own;
  const [width, height] = [300, 60];
  const shown = typeof value === "number" ? value : null;
  const first = Math.min(points[0], shown ?? points[0]);
  const last = Math.max(points.at(-1), shown ?? first, first + 1e-9);
  const x = (number) => (width * (number - first)) / (last - first);
  const top = Math.max(...density, 1e-300);
  const line = points.map((point, k) => `${x(point).toFixed(1)},${(height - 8 - (height - 12) * density[k] / top).toFixed(1)}`);
  const area = drawing("polygon", { class: "curve", points: `${x(points[0])},${height - 8} ${line.join(" ")} ${x(points.at(-1))},${height - 8}` });
  const range = drawing("line", { class: "range", x1: x(low), x2: x(high), y1: height - 4, y2: height - 4 });
  const text = `${name}: about ${plain(center)}, 90 % from ${plain(low)} to ${plain(high)}`;
  const picture = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text }, area, range);
  if (shown !== null) picture.append(drawing("line", { class: "here", x1: x(shown), x2: x(shown), y1: 0, y2: height }));
  const numbers = element("p", { class: "quiet", "data-center": center, "data-low": low, "data-high": high },
    `${plain(center)} (${plain(low)} to ${plain(high)})`);
  return [picture, numbers, surprise(own)];
}

function surprise({ nats, tail }) {
  if (nats === null) return null;
  return element("p", { class: "quiet", "data-nats": nats }, `log p = ${nats.toFixed(2)} nats; as far out or further: ${percent(tail)}`);
}
