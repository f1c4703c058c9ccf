// Measuring and scrolling make a browser lay out everything at once: done together after all is drawn, it does so only once.

const waiting = new Map();

/** Do something before the next frame; of several under one key only the last. */
export function afterwards(key, act) {
  if (waiting.size === 0) requestAnimationFrame(run);
  waiting.set(key, act);
}

/** Return a function that tells how wide an element is, measured once for every width of the page. */
export function ruled(node) {
  let [page, width] = [0, 0];
  return (state) => {
    if (page !== state.width || width === 0) [page, width] = [state.width, node.clientWidth];
    return width;
  };
}

function run() {
  const acts = [...waiting.values()];
  waiting.clear();
  for (const act of acts) act();
}
