"use strict";
(() => {
  const drawing = document.querySelector(".map ~ .drawing svg");
  const MARGIN = 14, MOST_NAMES = 160, FONT = 12, NEAR = 14;
  const ink = document.createElement("canvas").getContext("2d");

  const element = (name, parent, attributes = {}) => {
    const made = name == "circle" || name == "text" || name == "svg"
      ? document.createElementNS(drawing.namespaceURI, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };
  const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
  const meets = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];

  const start = (root) => {
    const { names, x, y, size } = JSON.parse(root.dataset.points);
    const order = names.map((_, i) => i);
    let zoom = 1, cx = 0.5, cy = 0.5, hits = [], at = -1, over = -1, width = 0, height = 0;

    const bar = element("div", root, { class: "tools" });
    const label = element("label", bar);
    label.append("Find ");
    const find = element("input", label, { type: "search", autocomplete: "off", spellcheck: "false" });
    const button = (text, title, run) => {
      const made = element("button", bar, { type: "button", title, "aria-label": title });
      made.append(text);
      made.addEventListener("click", run);
    };
    button("−", "Zoom out", () => by(1 / 1.5));
    button("+", "Zoom in", () => by(1.5));
    button("Reset", "Show everything", () => reset());
    const status = element("span", bar, { role: "status" });
    const svg = element("svg", root, {
      tabindex: "0", role: "group",
      "aria-label": `${root.dataset.title}. Arrow keys move, plus and minus zoom, 0 shows everything.`,
    });

    const place = (i) => [
      width / 2 + (x[i] - cx) * zoom * (width - 2 * MARGIN),
      height / 2 - (y[i] - cy) * zoom * (height - 2 * MARGIN),
    ];
    const radius = (i) => 2.5 + 6 * Math.sqrt(size[i]);

    const draw = () => {
      const first = new Set(hits), on = hits.length || find.value;
      const spots = order.map(place);
      svg.replaceChildren();
      for (const i of order) {
        const [u, v] = spots[i];
        if (u < -9 || v < -9 || u > width + 9 || v > height + 9) continue;
        const kind = first.has(i) ? "dot hit" : on ? "dot dim" : "dot";
        element("circle", svg, { cx: u.toFixed(1), cy: v.toFixed(1), r: radius(i).toFixed(1), class: kind });
      }
      const taken = [];
      ink.font = `${FONT}px ${getComputedStyle(root).fontFamily}`;
      const wanted = [...new Set([...(over < 0 ? [] : [over]), ...hits, ...(on && at < 0 ? [] : order)])];
      for (const i of wanted) {
        if (taken.length >= MOST_NAMES) break;
        const [u, v] = spots[i], w = ink.measureText(names[i]).width + 4, gap = radius(i) + 3;
        for (const left of [u + gap, u - gap - w]) {
          const box = [left, v - FONT / 2 - 2, left + w, v + FONT / 2 + 2];
          const inside = box[0] > 2 && box[1] > 2 && box[2] < width - 2 && box[3] < height - 2;
          const free = spots.every(([a, b], other) => other == i
            || a < box[0] || a > box[2] || b < box[1] || b > box[3]);
          if (!inside || !(free || first.has(i) || i == over) || taken.some((other) => meets(box, other))) continue;
          taken.push(box);
          const kind = i == over || first.has(i) ? "name hit" : on ? "name dim" : "name";
          const text = element("text", svg, { x: (left + 1).toFixed(1), y: (v + FONT * 0.35).toFixed(1), class: kind });
          text.textContent = names[i];
          break;
        }
      }
      svg.style.touchAction = zoom > 1 ? "none" : "auto";
    };
    const limit = () => {
      const room = 0.5 / zoom;
      cx = clamp(cx, Math.min(room, 0.5), Math.max(1 - room, 0.5));
      cy = clamp(cy, Math.min(room, 0.5), Math.max(1 - room, 0.5));
      draw();
    };
    const by = (factor, u = width / 2, v = height / 2) => {
      const next = clamp(zoom * factor, 1, 40);
      const shift = 1 / zoom - 1 / next;
      cx += (u - width / 2) / (width - 2 * MARGIN) * shift;
      cy -= (v - height / 2) / (height - 2 * MARGIN) * shift;
      zoom = next;
      limit();
    };
    const move = (right, up) => { cx += right / zoom; cy += up / zoom; limit(); };
    const reset = () => { zoom = 1; cx = cy = 0.5; limit(); };
    const search = () => {
      const words = find.value.trim().toLowerCase();
      hits = words ? order.filter((i) => names[i].toLowerCase().includes(words)) : [];
      at = -1;
      const some = hits.slice(0, 3).map((i) => names[i]).join(", ");
      status.textContent = !words ? "" : hits.length ? `${hits.length} found: ${some}${hits.length > 3 ? " …" : ""}` : "none found";
      draw();
    };
    const next = () => {
      if (!hits.length) return;
      at = (at + 1) % hits.length;
      [cx, cy] = [x[hits[at]], y[hits[at]]];
      zoom = Math.max(zoom, 4);
      status.textContent = `${at + 1} of ${hits.length}: ${names[hits[at]]}`;
      limit();
    };

    find.addEventListener("input", search);
    find.addEventListener("keydown", (event) => {
      if (event.key == "Enter") { event.preventDefault(); next(); }
      if (event.key == "Escape") { find.value = ""; search(); }
    });
    const keys = {
      ArrowLeft: () => move(-0.1, 0), ArrowRight: () => move(0.1, 0),
      ArrowUp: () => move(0, 0.1), ArrowDown: () => move(0, -0.1),
      "+": () => by(1.5), "=": () => by(1.5), "-": () => by(1 / 1.5), 0: reset,
    };
    svg.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement != svg) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      by(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    }, { passive: false });
    let held = null;
    svg.addEventListener("pointerdown", (event) => {
      if (zoom > 1) { held = [event.clientX, event.clientY]; svg.setPointerCapture(event.pointerId); }
    });
    svg.addEventListener("pointermove", (event) => {
      if (held) {
        move((held[0] - event.clientX) / (width - 2 * MARGIN), (event.clientY - held[1]) / (height - 2 * MARGIN));
        held = [event.clientX, event.clientY];
        return;
      }
      const box = svg.getBoundingClientRect(), u = event.clientX - box.left, v = event.clientY - box.top;
      let best = -1, least = NEAR;
      for (const i of order) {
        const [a, b] = place(i), far = Math.hypot(a - u, b - v);
        if (far < least) [best, least] = [i, far];
      }
      if (best != over) { over = best; draw(); }
    });
    for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => { held = null; });
    svg.addEventListener("pointerleave", () => { if (over >= 0) { over = -1; draw(); } });

    const fit = () => {
      const room = root.clientWidth;
      if (!room || room == width) return;
      width = room;
      height = Math.round(clamp(0.66 * room, 340, 620));
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.style.height = `${height}px`;
      limit();
    };
    for (const still of root.parentElement.querySelectorAll(".drawing")) still.hidden = true;
    root.hidden = false;
    fit();
    new ResizeObserver(fit).observe(root);
  };

  for (const root of document.querySelectorAll(".map")) start(root);
})();
