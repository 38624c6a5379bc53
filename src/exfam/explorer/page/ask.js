// Questions to the model, and what is shown while they are answered.

import { answered, started, Unreachable } from "./server.js";

const failure = document.getElementById("failure");
const view = document.getElementById("view");
let running = 0;

export class Refused extends Error {}

export async function ask(name, question) {
  const { answer, refusal } = await answered(name, question);
  if (refusal !== undefined) throw new Refused(refusal);
  return answer;
}

// What a view needs before any question; without a name, the first one.
export async function start(name) {
  return started(name);
}

// Runs a task, the view being busy; what it could not do is said at the foot of the page.
export async function attempt(task) {
  running += 1;
  view.setAttribute("aria-busy", "true");
  try {
    await task();
    failure.hidden = true;
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    failure.textContent = error.message;
    failure.hidden = false;
  } finally {
    running -= 1;
    if (!running) view.removeAttribute("aria-busy");
  }
}

// Of tasks that overtake each other the last one wins: `latest()` makes a runner for one panel.
export function latest() {
  let turn = 0;
  return async (question, show) => {
    const own = ++turn;
    const answer = await question;
    if (own === turn) show(answer);
  };
}
