// Where one is on the tall page: the stage that stands below the sentence; and how one gets to another.

const SETTLED = 2000;

/** Follow scrolling: `stage` of the scope is the number of the section one is at; `isBusy` tells whether something is still to be drawn. Returns {go(number), reach()}. */
export function whereabouts(scope, nodes, top, isBusy) {
  let aim = null; // where one was sent, until one scrolls by oneself: what is drawn above pushes it away
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
  scope.listen(window, "scroll", () => scope.afterwards("arrive", () => {
    if (aim !== null) return;
    const line = top.offsetHeight + 60;
    scope.set({ stage: Math.max(0, nodes.findLastIndex((node) => node.getBoundingClientRect().top <= line)) });
  }));
  scope.watch(["stage"], ({ stage }) => nodes.forEach((node, at) => node.classList.toggle("here", at === stage)));
  scope.onEnd(free);
  return { go, reach };
}
