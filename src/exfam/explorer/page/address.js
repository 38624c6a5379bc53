// What is kept in the address, so that a page can be shared and opened again.

export function read() {
  return new URLSearchParams(location.hash.slice(1));
}

export function write(fields) {
  const kept = Object.entries(fields).filter(([, value]) => value !== null && value !== "");
  const text = new URLSearchParams(kept).toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname);
}

export function codes(text) {
  return (text ?? "").split(",").filter((part) => /^\d+$/.test(part)).map(Number);
}
