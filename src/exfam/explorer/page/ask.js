// Questions to the model: JSON there and back.

const failure = document.getElementById("failure");
const view = document.getElementById("view");
let running = 0;

export class Refused extends Error {}

export async function ask(name, question) {
  const response = await received(`ask/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
  });
  const answer = await response.json();
  if (!response.ok) throw new Refused(answer.error);
  return answer;
}

// What a view needs before any question; without a name, the first one.
export async function start(name) {
  return (await received(name === undefined ? "start" : `start/${name}`)).json();
}

async function received(address, options) {
  try {
    return await fetch(address, options);
  } catch {
    throw new Refused("The model answers no longer. Is it still being served?");
  }
}

// Runs a task, the view being busy; what it could not do is said at the foot of the page.
export async function attempt(task) {
  running += 1;
  view.setAttribute("aria-busy", "true");
  try {
    await task();
    failure.hidden = true;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
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
