// An SVG as PNG: twice as fine as the screen's points, coarser only where a browser could not hold it.

import { written } from "./vector.js";

const SCALE = 2;
const LARGEST = 8192;

/** Return a PNG of an SVG element. */
export async function raster(picture) {
  const [width, height] = ["width", "height"].map((name) => Number(picture.getAttribute(name)));
  const scale = Math.min(SCALE, LARGEST / width, LARGEST / height);
  const image = new Image(width, height);
  image.setAttribute("src", `data:image/svg+xml,${encodeURIComponent(written(picture))}`);
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [Math.ceil(width * scale), Math.ceil(height * scale)];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
