// Elements of the page. Names from data are always text, never markup.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

// Of a page whose answers were written beforehand nothing can be changed.
export function disable(box) {
  for (const control of box.querySelectorAll("input, select, button")) control.disabled = true;
}

const SVG = "http://www.w3.org/2000/svg";

export function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A bar of a length in -1 .. 1; numbers beside it say the same to those who do not see it.
export function bar(length, { before = null } = {}) {
  const own = element("span", { class: length < 0 ? "bar down" : "bar" });
  own.style.width = `${100 * Math.min(1, Math.abs(length))}%`;
  const track = element("span", { class: "track", "aria-hidden": "true" }, own);
  if (before !== null) {
    const mark = element("span", { class: "before" });
    mark.style.left = `${100 * Math.min(1, before)}%`;
    track.append(mark);
  }
  return track;
}

export function percent(share) {
  if (share === null) return "–";
  const value = 100 * share;
  if (value < 0.001) return value ? "< 0.001 %" : "0 %";
  return `${value.toFixed(value >= 10 ? 1 : value >= 0.1 ? 2 : 3)} %`;
}

export function signed(number, digits = 3) {
  if (number === null) return "–";
  const text = Math.abs(number).toFixed(digits);
  if (Number(text) === 0) return text;
  return (number < 0 ? "−" : "+") + text;
}

export function plain(number) {
  if (number === null) return "–";
  return Number(number.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });
}

// Replaces what is inside, and keeps the keyboard where it was: on the element of the same name.
export function replace(parent, ...children) {
  const active = document.activeElement;
  const key = parent.contains(active) ? active.dataset.key : undefined;
  parent.replaceChildren(...children.flat().filter(Boolean));
  if (key !== undefined) {
    const again = [...parent.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
    if (again) again.focus({ preventScroll: true });
  }
}
