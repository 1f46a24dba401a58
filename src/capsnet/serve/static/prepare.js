// From a picture file to what a network takes, in the browser; the same steps as capsnet/data/pictures.py and preprocessing.py.

import { border, centreDigit, quantile } from "./digit.js";
import { resize } from "./resample.js";

const MOST = 4096; // pixels on a side that are looked at
const MOST_OF_A_DIGIT = 1024;

// The file's pixels, upright, at no more than `most` a side.
async function decode(file, most) {
  const bitmap = await createImageBitmap(file, { imageOrientation: "from-image", premultiplyAlpha: "none" }).catch(() => {
    throw new Error(`${file.name ? `'${file.name}'` : "The file"} is not a picture that this browser can read.`);
  });
  const scale = Math.min(1, most / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

const luminance = (r, g, b) => (r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16;

// A plane of each pixel's value over the ground that shines through where it is transparent.
function plane({ width, height, data }, ground, value) {
  const out = new Float64Array(width * height);
  for (let n = 0, at = 0; n < out.length; n++, at += 4) {
    const alpha = data[at + 3] / 255;
    out[n] = value(data[at], data[at + 1], data[at + 2]) * alpha + ground * (1 - alpha);
  }
  return { width, height, data: out };
}

function readDigit(image, height, width) {
  let [drawn, opaque] = [0, 0];
  for (let at = 0; at < image.data.length; at += 4) {
    const alpha = image.data[at + 3] / 255;
    drawn += luminance(image.data[at], image.data[at + 1], image.data[at + 2]) * alpha;
    opaque += alpha;
  }
  const ground = drawn / Math.max(opaque, 1e-9) < 128 ? 255 : 0;
  return centreDigit(plane(image, ground, luminance), height, width);
}

const CHANNELS = { 1: [luminance], 3: [(r) => r, (_, g) => g, (_r, _g, b) => b] };

function readWhole(image, channels, height, width, ground) {
  return CHANNELS[channels].map((value) => {
    const whole = plane(image, ground, value);
    return resize({ ...whole, data: whole.data.map(Math.round) }, width, height, true);
  });
}

function half({ width, height, data }, left, size) {
  const eye = new ImageData(size, height);
  for (let y = 0; y < height; y++) eye.data.set(data.subarray(4 * (y * width + left), 4 * (y * width + left + size)), 4 * y * size);
  return eye;
}

// C x H x W whole numbers of 0..255, as the data set stores pictures.
export async function readPicture(file, model) {
  const { preprocessing, image_shape: shape } = model;
  const [channels, height, width] = model.picture_shape;
  if (preprocessing.kind === "digit") {
    const sheet = readDigit(await decode(file, MOST_OF_A_DIGIT), shape[1], shape[2]);
    return Array(channels).fill(sheet);
  }
  const image = await decode(file, MOST);
  const ground = preprocessing.light_on_dark ? 0 : 255;
  let planes;
  if (channels === 2) {
    const size = Math.floor(image.width / 2);
    if (Math.abs(size - image.height) > 0.1 * image.height)
      throw new Error("The picture must be a stereo pair: two square pictures side by side.");
    planes = [0, image.width - size].flatMap((left) => readWhole(half(image, left, size), 1, height, width, ground));
  } else planes = readWhole(image, channels, height, width, ground);
  if (preprocessing.light_on_dark) {
    const mean = planes[0].data.map((_, n) => planes.reduce((sum, { data }) => sum + data[n], 0) / planes.length);
    if (quantile(border({ width, height, data: mean }), 0.5) > 127) planes.forEach((p) => (p.data = p.data.map((value) => 255 - value)));
  }
  return planes.map(({ data }) => Array.from({ length: height }, (_, y) => Array.from(data.subarray(y * width, (y + 1) * width))));
}

// What the network takes: divided, standardised, the middle cut out, each where the card says so. Pictures have their size already.
export function normalise(picture, model) {
  const { divisor, mean, std, crop, per_image: perImage } = model.preprocessing;
  const [, stored, across] = model.picture_shape;
  const [height, width] = crop ?? [stored, across];
  const [top, left] = [Math.floor((stored - height) / 2), Math.floor((across - width) / 2)];
  const at = (values, channel) => values[values.length === 1 ? 0 : channel];
  const out = new Float32Array(picture.length * height * width);
  let n = 0;
  picture.forEach((channel, c) => {
    for (let y = top; y < top + height; y++) {
      for (let x = left; x < left + width; x++) {
        const value = Math.fround(channel[y][x] / divisor);
        out[n++] = mean ? Math.fround(value - Math.fround(at(mean, c))) / Math.fround(at(std, c)) : value;
      }
    }
  });
  return perImage ? standardise(out) : out;
}

function standardise(values) {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  const deviation = Math.max(Math.sqrt(variance), values.length ** -0.5);
  return values.map((value) => (value - mean) / deviation);
}
