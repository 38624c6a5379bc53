// Dots in a plane that is zoomed and moved: by wheel, by dragging, by keys and by buttons.

import { drawing, element } from "./dom.js";

const [WIDE, HIGH, FONT, MOST_NAMES, MOST_ZOOM] = [640, 480, 12, 70, 200];
const STEP = 1.6;
const ink = document.createElement("canvas").getContext("2d");

// `moved()` is called when another part of the plane is to be shown, `choose(code)` for a dot.
export class Plane {
  constructor({ label, moved, choose }) {
    Object.assign(this, { moved, choose, full: null, middle: null, zoom: 1 });
    this.svg = drawing("svg", {
      viewBox: `0 0 ${WIDE} ${HIGH}`, class: "plane", role: "group", tabindex: 0,
      "aria-label": `${label}. Arrow keys move it, plus and minus zoom, 0 shows all. Tab goes to the dots, where arrow keys go from dot to dot.`,
    });
    this.svg.addEventListener("keydown", (event) => this.pressed(event));
    this.svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.svg.addEventListener("pointerdown", (event) => this.drag(event));
    const button = (text, says, run) => element("button", { "aria-label": says, title: says, onclick: run }, text);
    this.buttons = [
      button("+", "Zoom in", () => this.by(STEP)), button("−", "Zoom out", () => this.by(1 / STEP)),
      button("All", "Show all", () => this.show(null)),
    ];
  }

  // The whole of a plane, and the part of it to begin with: [x, y, zoom].
  extent({ low, high }, part) {
    this.full = { low, high };
    const [x, y, zoom] = part ?? [];
    this.middle = part ? [x, y] : low.map((own, k) => (own + high[k]) / 2);
    this.zoom = Math.min(MOST_ZOOM, Math.max(1, zoom || 1));
  }

  get unit() {
    const [w, h] = this.full.low.map((own, k) => this.full.high[k] - own);
    return this.zoom * Math.min(WIDE / w, HIGH / h);
  }

  // Corners of what is shown.
  get window() {
    const half = [WIDE / 2 / this.unit, HIGH / 2 / this.unit];
    return { low: this.middle.map((own, k) => own - half[k]), high: this.middle.map((own, k) => own + half[k]) };
  }

  // What the address keeps of it.
  get part() {
    return this.zoom === 1 ? "" : [...this.middle.map((own) => own.toPrecision(5)), this.zoom.toFixed(2)].join(",");
  }

  show(part) {
    this.extent(this.full, part);
    this.moved();
  }

  at([x, y]) {
    return [WIDE / 2 + (x - this.middle[0]) * this.unit, HIGH / 2 - (y - this.middle[1]) * this.unit];
  }

  by(factor, [px, py] = [WIDE / 2, HIGH / 2]) {
    const before = this.unit;
    const zoom = Math.min(MOST_ZOOM, Math.max(1, this.zoom * factor));
    if (zoom === 1) return this.show(null);
    const after = (before * zoom) / this.zoom;
    const shift = 1 / before - 1 / after;
    this.show([this.middle[0] + (px - WIDE / 2) * shift, this.middle[1] - (py - HIGH / 2) * shift, zoom]);
  }

  move(px, py) {
    this.show([this.middle[0] + px / this.unit, this.middle[1] - py / this.unit, this.zoom]);
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    const dot = event.target.dataset?.dot;
    if (event.key === "+" || event.key === "=") this.by(STEP);
    else if (event.key === "-") this.by(1 / STEP);
    else if (event.key === "0") this.show(null);
    else if (by && dot !== undefined) this.focus(this.beside(Number(dot), by));
    else if (by) this.move(by[0] * WIDE * 0.2, by[1] * HIGH * 0.2);
    else if (dot !== undefined && (event.key === "Enter" || event.key === " ")) this.choose(Number(dot));
    else return;
    event.preventDefault();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && !this.svg.contains(document.activeElement)) return;
    event.preventDefault();
    this.by(Math.exp(-event.deltaY / 300), this.point(event));
  }

  point(event) {
    const box = this.svg.getBoundingClientRect();
    return [((event.clientX - box.left) * WIDE) / box.width, ((event.clientY - box.top) * HIGH) / box.height];
  }

  drag(event) {
    event.preventDefault();
    const dot = event.target.dataset?.dot;
    const from = this.point(event);
    let to = from;
    this.svg.setPointerCapture(event.pointerId);
    this.svg.onpointermove = (moved) => {
      to = this.point(moved);
      this.inside?.setAttribute("transform", `translate(${to[0] - from[0]},${to[1] - from[1]})`);
    };
    this.svg.onpointerup = () => {
      this.svg.onpointermove = this.svg.onpointerup = null;
      this.svg.focus({ preventScroll: true });
      if (Math.hypot(to[0] - from[0], to[1] - from[1]) >= 4) this.move(from[0] - to[0], from[1] - to[1]);
      else if (dot !== undefined) this.choose(Number(dot));
    };
  }

  // The nearest dot in a direction.
  beside(code, [dx, dy]) {
    const own = this.dots.find((dot) => dot.code === code);
    const costs = this.dots.map((dot) => {
      const [right, down] = [dot.px - own.px, dot.py - own.py];
      const [along, across] = [right * dx + down * dy, Math.abs(right * dy) + Math.abs(down * dx)];
      return along > 0.5 ? along + 3 * across : Infinity;
    });
    const best = costs.indexOf(Math.min(...costs));
    return costs[best] < Infinity ? this.dots[best].code : code;
  }

  focus(code) {
    for (const dot of this.svg.querySelectorAll("[data-dot]")) dot.setAttribute("tabindex", Number(dot.dataset.dot) === code ? 0 : -1);
    this.svg.querySelector(`[data-dot="${code}"]`)?.focus({ preventScroll: true });
  }

  // `dots`: {code, name, at, kind, fill, first}; `rings`: {at, from, kind}; `cells`: {low, high, share};
  // `arrows`: [from, to]. Dots with `first` are named whatever they cover.
  draw({ dots, rings = [], cells = [], arrows = [] }) {
    const focused = document.activeElement?.dataset?.dot;
    this.dots = dots.map((dot) => { const [px, py] = this.at(dot.at); return { ...dot, px, py }; });
    this.inside = drawing("g", {}, ...cells.map((cell) => this.cell(cell)),
      ...rings.flatMap((ring) => this.ring(ring)), ...this.dots.map((dot, k) => this.dot(dot, k)),
      ...arrows.map(([from, to]) => this.arrow(this.at(from), this.at(to))), ...this.names());
    this.svg.replaceChildren(drawing("defs", {}, drawing("marker", {
      id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto",
    }, drawing("path", { d: "M0,0 L8,4 L0,8 z", class: "head" }))), this.inside);
    if (focused !== undefined) this.focus(Number(focused));
  }

  cell({ low, high, share }) {
    const [[left, bottom], [right, top]] = [this.at(low), this.at(high)];
    return drawing("rect", {
      class: "crowd", x: left, y: top, width: right - left, height: bottom - top, "fill-opacity": (0.05 + 0.3 * share).toFixed(3),
    });
  }

  ring({ at, from, kind }) {
    const [[x, y], [u, v]] = [this.at(at), this.at(from)];
    const circle = drawing("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 3.5, class: `ring ${kind}` });
    return kind ? [drawing("line", { x1: x, y1: y, x2: u, y2: v, class: "tie" }), circle] : [circle];
  }

  dot({ code, name, px, py, kind, fill }, k) {
    const circle = drawing("circle", {
      cx: px.toFixed(1), cy: py.toFixed(1), r: kind.includes("chosen") ? 7 : kind.includes("near") ? 5 : 3.5,
      class: `spot ${kind}`, "data-dot": code, role: "button", tabindex: k ? -1 : 0, "aria-label": name,
      ...(fill ? { fill } : {}),
    });
    circle.append(drawing("title", {}, name));
    return circle;
  }

  arrow([x, y], [u, v]) {
    const far = Math.hypot(u - x, v - y) || 1;
    const [dx, dy] = [((u - x) * 7) / far, ((v - y) * 7) / far];
    return drawing("line", { x1: x + dx, y1: y + dy, x2: u - dx, y2: v - dy, class: "arrow", "marker-end": "url(#head)" });
  }

  // Names as they fit: those that are first, then those of the first dots.
  names() {
    ink.font = `${FONT}px ${getComputedStyle(document.body).fontFamily}`;
    const taken = [];
    const written = [];
    const meets = (box) => taken.some((own) => own[0] < box[2] && box[0] < own[2] && own[1] < box[3] && box[1] < own[3]);
    for (const dot of [...this.dots.filter((own) => own.first), ...this.dots.filter((own) => !own.first)]) {
      if (written.length >= MOST_NAMES) break;
      const name = dot.name.length > 40 ? `${dot.name.slice(0, 39)}…` : dot.name;
      const wide = ink.measureText(name).width + 4;
      for (const left of [dot.px + 7, dot.px - 7 - wide]) {
        const box = [left, dot.py - FONT / 2 - 1, left + wide, dot.py + FONT / 2 + 1];
        const inside = box[0] > 0 && box[1] > 0 && box[2] < WIDE && box[3] < HIGH;
        if (!inside || meets(box)) continue;
        taken.push(box);
        written.push(drawing("text", {
          x: (left + 2).toFixed(1), y: (dot.py + FONT * 0.35).toFixed(1), class: dot.first ? "written first" : "written",
        }, name));
        break;
      }
    }
    return written;
  }
}
