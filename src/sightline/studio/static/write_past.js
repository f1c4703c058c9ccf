// What a text was before, and what it was before that was undone.

/** Keep the past of a text area; `changed(text)` is told of every text that is put there. */
export function past(area, changed) {
  const [before, after] = [[], []];
  let now = area.value;
  let typing = false;
  const put = (text) => {
    area.value = now = text;
    changed(text);
  };
  const go = (from, to) => {
    if (from.length === 0) return;
    typing = false;
    to.push(area.value);
    put(from.pop());
  };
  /** Put another text there, which can be undone. */
  const set = (text) => {
    typing = false;
    if (text === now) return;
    before.push(now);
    after.length = 0;
    put(text);
  };
  area.addEventListener("input", () => {
    if (!typing || /\s$/.test(now)) before.push(now); // a word at a time
    typing = true;
    after.length = 0;
    now = area.value;
    changed(now);
  });
  area.addEventListener("keydown", (event) => {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || !["z", "y"].includes(key)) return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) go(after, before);
    else go(before, after);
  });
  return { set, undo: () => go(before, after), redo: () => go(after, before), canUndo: () => before.length > 0, canRedo: () => after.length > 0 };
}
