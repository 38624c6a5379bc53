// Colors of numbers, from low to high.

export const SCALE = ["#2d3a8c", "#2f7fb8", "#7fc8b0", "#f0d878", "#e07b39", "#a3262a"];

export function shade(number, [low, high], stops = SCALE) {
  const at = Math.min(1, Math.max(0, (number - low) / (high - low || 1))) * (stops.length - 1);
  const k = Math.min(stops.length - 2, Math.floor(at));
  const channels = (text) => [1, 3, 5].map((from) => parseInt(text.slice(from, from + 2), 16));
  const [one, other] = [channels(stops[k]), channels(stops[k + 1])];
  return `rgb(${one.map((part, c) => Math.round(part + (other[c] - part) * (at - k))).join(",")})`;
}
