// The current stage by scroll position, and scrolling to a stage.

const SETTLED = 2000;

/** Keep the scope's `stage` in sync with scrolling; `isBusy` tells whether sections are still being drawn. Return {go(number), reach()}. */
export function followScroll(scope, nodes, top, isBusy) {
  let aim = null; // the target, until the user scrolls: sections drawn above may move it
  let timer = null;
  const reach = () => aim !== null && scrollTo({ top: nodes[aim].getBoundingClientRect().top + scrollY - top.offsetHeight - 8, behavior: "instant" });
  const free = () => {
    clearTimeout(timer);
    aim = null;
  };
  const settle = () => {
    clearTimeout(timer);
    timer = setTimeout(() => (isBusy() ? settle() : free()), SETTLED);
  };
  const go = (number) => {
    settle();
    aim = Math.max(0, Math.min(nodes.length - 1, number));
    scope.set({ stage: aim });
    reach();
  };
  for (const name of ["wheel", "touchmove", "pointerdown"]) scope.listen(window, name, free);
  scope.listen(window, "keydown", ({ key }) => /^(Page|Home|End|Tab)/.test(key) && free());
  scope.listen(window, "scroll", () => scope.beforeNextFrame("arrive", () => {
    if (aim !== null) return;
    const line = top.offsetHeight + 60;
    scope.set({ stage: Math.max(0, nodes.findLastIndex((node) => node.getBoundingClientRect().top <= line)) });
  }));
  scope.watch(["stage"], ({ stage }) => nodes.forEach((node, at) => node.classList.toggle("here", at === stage)));
  scope.onEnd(free);
  return { go, reach };
}
