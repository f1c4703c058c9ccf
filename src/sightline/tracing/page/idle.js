// Run slow work in slices of a few milliseconds after the next frame, so that the page stays responsive.

const SLICE = 8;

/** Run a generator in slices; return a function that stops it. */
export function whenIdle(pieces) {
  let timer = null;
  const go = () => {
    const end = performance.now() + SLICE;
    while (performance.now() < end) if (pieces.next().done) return;
    timer = setTimeout(go, SLICE);
  };
  const frame = requestAnimationFrame(() => (timer = setTimeout(go, SLICE)));
  return () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
}
