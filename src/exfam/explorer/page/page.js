// Opens the views of the model. What one does there is kept in the address, after "#".

import * as address from "./address.js";
import { attempt, start } from "./ask.js";
import { element, replace } from "./dom.js";
import * as attention from "./attention.js";
import * as errors from "./errors.js";
import * as items from "./items.js";
import * as row from "./row.js";
import * as stations from "./stations.js";
import * as vectors from "./vectors.js";

// By name: the module, and what its button says.
const VIEWS = {
  errors: [errors, "Errors"],
  items: [items, "What if"],
  row: [row, "What if"],
  stations: [stations, "What if"],
  vectors: [vectors, "Map"],
  attention: [attention, "Attention"],
};
const view = document.getElementById("view");
let given;

attempt(async () => {
  given = await start();
  address.shown.first = given.view;
  document.getElementById("title").textContent = `What if? ${given.title}`;
  document.title = `What if? ${given.title}`;
  document.getElementById("about").textContent = given.gain;
  await follow();
  addEventListener("hashchange", () => attempt(follow));
});

// Shows the view that the address names, as it says.
async function follow() {
  const named = address.read().get("view");
  const name = given.views.includes(named) ? named : given.view;
  const [module] = VIEWS[name];
  if (name === address.shown.view) return module.restore();
  address.shown.view = name;
  showTabs();
  view.className = "";
  await module.open(view, name === given.view ? given : await start(name));
}

function showTabs() {
  const tabs = document.getElementById("tabs");
  tabs.hidden = given.views.length < 2;
  replace(tabs, given.views.map((name) => element("button", {
    "data-key": name, "aria-current": name === address.shown.view ? "page" : null,
    onclick: () => { location.hash = address.last(name); },
  }, VIEWS[name][1])));
}
