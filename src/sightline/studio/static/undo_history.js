// Undo and redo for a text area.

/** Keep the undo history of a text area; `changed(text)` is called for every new text. */
export function undoHistory(area, changed) {
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
  /** Replace the text, with undo. */
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
