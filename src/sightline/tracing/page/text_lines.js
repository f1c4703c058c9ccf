// Find the lines into which the browser wrapped a text: each line's text, box and ascent.

const ruler = new OffscreenCanvas(1, 1).getContext("2d");

/** Return the lines of a text node: [{text, box, ascent, room}]; room is the width that its element allows. */
export function linesOf(node, style) {
  const range = document.createRange();
  range.selectNodeContents(node);
  if (range.getClientRects().length === 0 || node.data.trim() === "") return [];
  ruler.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const ascent = ruler.measureText("x").fontBoundingBoxAscent;
  const room = style.textOverflow === "ellipsis" && style.display !== "inline" ? node.parentElement.clientWidth : Infinity;
  return findLines(node, range).map(({ start, end }) => {
    range.setStart(node, start);
    range.setEnd(node, end);
    return { text: node.data.slice(start, end), box: range.getBoundingClientRect(), ascent, room };
  });
}

/** Return where each line starts and ends, found word by word, and letter by letter in words that are split. */
function findLines(node, range) {
  const lines = [];
  const add = (start, text) => {
    const end = start + text.length;
    range.setStart(node, start);
    range.setEnd(node, end);
    const { top, bottom, height } = range.getBoundingClientRect();
    const last = lines.at(-1);
    if ([...text].length > 1 && height > 1.5 * range.getClientRects()[0].height) {
      for (const { index, 0: letter } of text.matchAll(/./gsu)) add(start + index, letter);
    } else if (last !== undefined && top < last.bottom - 2) last.end = end;
    else lines.push({ start, end, bottom });
  };
  for (const { index, 0: word } of node.data.matchAll(/\S+/g)) add(index, word);
  return lines;
}
