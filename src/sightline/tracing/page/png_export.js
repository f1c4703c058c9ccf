// Render an SVG as PNG at twice the CSS resolution, or less if the image would be too large for a browser.

import { svgText } from "./svg_export.js";

const SCALE = 2;
const MAX_SIDE = 8192;

/** Return a PNG of an SVG element. */
export async function toPng(picture) {
  const [width, height] = ["width", "height"].map((name) => Number(picture.getAttribute(name)));
  const scale = Math.min(SCALE, MAX_SIDE / width, MAX_SIDE / height);
  const image = new Image(width, height);
  image.setAttribute("src", `data:image/svg+xml,${encodeURIComponent(svgText(picture))}`);
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.ceil(width * scale), Math.ceil(height * scale)];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
