// Test images to begin with. With two digits, the last two picked are laid over each other as MultiMNIST does.

import { paint } from "./paint.js";

const SHIFTS = [
  [-3, -3],
  [3, 3],
];

export class Samples {
  constructor({ strip, shuffle, getSamples, onPick, onProblem }) {
    Object.assign(this, { strip, getSamples, onPick, onProblem, picked: [] });
    shuffle.addEventListener("click", () => this.fetch(false));
  }

  async enter(two, shape, demo) {
    this.two = two;
    this.shape = shape;
    this.picked = [];
    await this.fetch(demo);
  }

  async fetch(demo) {
    try {
      this.samples = await this.getSamples(Math.floor(Math.random() * 2 ** 31));
    } catch (problem) {
      this.onProblem(problem);
      return;
    }
    this.picked = [];
    this.buttons = this.samples.map(({ image, class: name }, index) => {
      const button = Object.assign(document.createElement("button"), { type: "button", className: "sample" });
      button.setAttribute("aria-label", `Test image of ${name}`);
      button.setAttribute("aria-pressed", "false");
      const canvas = document.createElement("canvas");
      paint(canvas, image);
      button.append(canvas);
      button.addEventListener("click", () => this.pick(index));
      return button;
    });
    this.strip.replaceChildren(...this.buttons);
    if (demo) this.demonstrate();
  }

  // Something to look at from the first moment; the first stroke sweeps it away.
  demonstrate() {
    const first = Math.floor(Math.random() * this.samples.length);
    if (this.two) this.picked = [(first + 1 + Math.floor(Math.random() * (this.samples.length - 1))) % this.samples.length];
    this.pick(first, true);
  }

  pick(index, demo = false) {
    this.picked = this.two ? [...this.picked.filter((n) => n !== index), index].slice(-2) : [index];
    this.buttons.forEach((button, n) => button.setAttribute("aria-pressed", !demo && this.picked.includes(n)));
    const images = this.picked.map((n) => this.samples[n].image);
    this.onPick(this.two ? overlay(images, this.shape) : images[0], demo);
  }
}

// Added and cut at white, each a little off the middle.
function overlay(images, [, height, width]) {
  const field = Array.from({ length: height }, () => Array(width).fill(0));
  images.forEach(([image], n) => {
    const [down, right] = images.length > 1 ? SHIFTS[n] : [0, 0];
    const top = Math.floor((height - image.length) / 2) + down;
    const left = Math.floor((width - image[0].length) / 2) + right;
    image.forEach((line, row) =>
      line.forEach((value, column) => {
        const [y, x] = [row + top, column + left];
        if (field[y]?.[x] !== undefined) field[y][x] = Math.min(255, field[y][x] + value);
      }),
    );
  });
  return [field];
}
