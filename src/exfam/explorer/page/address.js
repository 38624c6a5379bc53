// What is kept in the address, so that a page can be shared and opened again.

// The view that is open; the first one of a model is left out of the address.
export const shown = { view: null, first: null };
const left = new Map();

export function read() {
  return new URLSearchParams(location.hash.slice(1));
}

// The address, after "#", of a view with these fields.
export function of(view, fields) {
  const named = view === shown.first ? fields : { view, ...fields };
  const kept = Object.entries(named).filter(([, value]) => value !== null && value !== "");
  return new URLSearchParams(kept).toString();
}

export function write(fields) {
  const text = of(shown.view, fields);
  left.set(shown.view, text);
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

// Where a view was left, or its beginning.
export function last(view) {
  return left.get(view) ?? of(view, {});
}

// The fields of another view as it was left, null where it was not open.
export function fieldsOf(view) {
  return left.has(view) ? new URLSearchParams(left.get(view)) : null;
}

export function codes(text) {
  return (text ?? "").split(",").filter((part) => /^\d+$/.test(part)).map(Number);
}

// What a field holds as JSON; otherwise, of what is none, something else.
export function json(text, otherwise = null) {
  try {
    return JSON.parse(text) ?? otherwise;
  } catch {
    return otherwise;
  }
}
