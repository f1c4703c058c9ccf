// Where the page begins: read the trace that stands in it, and draw.

import { draw } from "./page.js";

const { trace, title } = JSON.parse(document.getElementById("trace").textContent);
draw(document.querySelector("main"), trace, title);
