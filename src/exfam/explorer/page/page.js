// Opens the view of the model. What one does there is kept in the address, after "#".

import { attempt, start } from "./ask.js";
import * as items from "./items.js";
import * as row from "./row.js";
import * as stations from "./stations.js";

const VIEWS = { items, row, stations };

attempt(async () => {
  const given = await start();
  document.getElementById("title").textContent = `What if? ${given.title}`;
  document.title = `What if? ${given.title}`;
  document.getElementById("about").textContent = given.gain;
  const view = document.getElementById("view");
  await VIEWS[given.view].open(view, given);
});
