// A digit in a picture, found and centred as MNIST was made; the same steps as capsnet/data/digits.py.

import { resize } from "./resample.js";

const BOX = 20;
const LEAST_CONTRAST = 12;

// Half to even, as NumPy and Python round.
export function round(x) {
  const below = Math.floor(x);
  if (x - below !== 0.5) return Math.round(x);
  return below % 2 === 0 ? below : below + 1;
}

export function border({ width, height, data }) {
  const rows = (y) => Array.from(data.subarray(y * width, (y + 1) * width));
  const column = (x) => Array.from({ length: height }, (_, y) => data[y * width + x]);
  return [...rows(0), ...rows(height - 1), ...column(0), ...column(width - 1)];
}

// Between two neighbours in proportion.
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}

const total = (data) => data.reduce((sum, value) => sum + value, 0);

// The box around what is above the threshold.
function cut({ width, height, data }, threshold) {
  let [left, top, right, bottom] = [width, height, -1, -1];
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++, at++) {
      if (data[at] <= threshold) continue;
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
  }
  const [w, h] = [right - left + 1, bottom - top + 1];
  return { width: w, height: h, data: Float64Array.from({ length: w * h }, (_, n) => data[(top + Math.floor(n / w)) * width + left + (n % w)]) };
}

// How much each pixel around the ink differs from the ground, 0..255; null for a blank sheet.
function findInk(grey) {
  const ground = quantile(border(grey), 0.5);
  const dark = grey.data.map((value) => Math.max(ground - value, 0));
  const light = grey.data.map((value) => Math.max(value - ground, 0));
  let ink = { ...grey, data: total(dark) > total(light) ? dark : light };
  const peak = ink.data.reduce((a, b) => Math.max(a, b), 0);
  if (peak < LEAST_CONTRAST) return null;
  const spread = quantile(border(ink), 0.9);
  const least = Math.min(spread, peak / 2);
  ink = { ...ink, data: ink.data.map((value) => (value > least ? value : 0)) };
  let boxed = cut(ink, 0);
  if (Math.max(boxed.width, boxed.height) > BOX) boxed = cut(ink, Math.min(Math.max(0.1 * peak, spread), peak / 2));
  return { ...boxed, data: boxed.data.map((value) => value * (255 / peak)) };
}

function fitBox(ink, box) {
  const scale = box / Math.max(ink.width, ink.height);
  if (scale === 1) return ink;
  const [width, height] = [ink.width, ink.height].map((side) => Math.max(1, round(side * scale)));
  const small = resize({ ...ink, data: ink.data.map(Math.fround) }, width, height, false);
  const data = small.data.map((value) => Math.min(255, Math.max(0, value)));
  const peak = data.reduce((a, b) => Math.max(a, b), 1e-9);
  return { width, height, data: data.map((value) => value * (255 / peak)) };
}

// Rows of whole numbers: light ink on black, its centre of mass in the middle.
export function centreDigit(grey, height, width) {
  const sheet = Array.from({ length: height }, () => Array(width).fill(0));
  const ink = findInk(grey);
  if (!ink) return sheet;
  const small = fitBox(ink, Math.min(BOX, height, width));
  let [mass, down, right] = [0, 0, 0];
  small.data.forEach((value, n) => {
    mass += value;
    down += value * Math.floor(n / small.width);
    right += value * (n % small.width);
  });
  const place = (side, own, centre) => Math.min(Math.max(round(side / 2 - centre), 0), side - own);
  const [top, left] = [place(height, small.height, down / mass), place(width, small.width, right / mass)];
  small.data.forEach((value, n) => (sheet[top + Math.floor(n / small.width)][left + (n % small.width)] = round(value)));
  return sheet;
}
