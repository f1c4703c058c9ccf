// Entry point of the page: read the embedded trace and draw it.

import { draw } from "./page.js";

const { trace, title } = JSON.parse(document.getElementById("trace").textContent);
draw(document.querySelector("main"), trace, title);
