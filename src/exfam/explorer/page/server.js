// Asks the server. In a page that is a file of its own, exported.js stands in its place.

export class Unreachable extends Error {}

export async function answered(name, question) {
  const response = await received(`ask/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(question),
  });
  const answer = await response.json();
  return response.ok ? { answer } : { refusal: answer.error };
}

// What a view needs before any question; without a name, the first one.
export async function started(name) {
  return (await received(name === undefined ? "start" : `start/${name}`)).json();
}

async function received(address, options) {
  try {
    return await fetch(address, options);
  } catch {
    throw new Unreachable("The model answers no longer. Is it still being served?");
  }
}
