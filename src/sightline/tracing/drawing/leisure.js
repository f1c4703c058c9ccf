// Slow work after the next frame, a few milliseconds at a time, so that nobody has to wait for it.

const SLICE = 8;

/** Do the pieces of a generator one after the other; return a function that stops it. */
export function atLeisure(pieces) {
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
