// Answers in a page that is a file of its own: those written into it, or of a base's tables.

import { ItemBase } from "./item_base.js";
import { WrittenItems } from "./written_items.js";

export class Unreachable extends Error {}

const held = unpacked(document.getElementById("answers").textContent);
const NOT_HERE = "This page holds the answers to the data as they are. Serve the model to ask what if: exfam explore MODEL DATA.";

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const content = await new Response(stream).json();
  if (content.tables) return { start: { items: content.tables.start }, base: new ItemBase(content.tables) };
  const answers = new Map(content.answers.map(([name, question, answer]) => [keyOf(name, question), answer]));
  const look = (name, question) => answers.get(keyOf(name, question));
  if (!content.catalog) return { start: content.starts, base: { answer: look } };
  return { start: content.starts, base: new WrittenItems(content.catalog, look) };
}

export async function started(name) {
  const { start } = await held;
  return start[name ?? Object.keys(start)[0]];
}

export async function answered(name, question) {
  const answer = (await held).base.answer(name, question);
  return answer === undefined ? { refusal: NOT_HERE } : { answer };
}

// The same for the same question, in whatever order its fields are.
function keyOf(name, question) {
  return `${name} ${JSON.stringify(inOrder(question))}`;
}

function inOrder(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(inOrder);
  return Object.keys(value).sort().map((name) => [name, inOrder(value[name])]);
}
