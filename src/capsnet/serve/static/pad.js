// The drawing board: strokes by mouse, finger or keyboard over a picture that may lie beneath. For photographs only the latter.

import { BOARD, CHALK, paint } from "./paint.js";

const SIDE = 560;
const WIDTH = 44; // of a stroke: a digit fills some 400 of 560, and MNIST's strokes are a tenth of their digit
const STEP = 14; // of the pen that the arrow keys move
const [BLACK, WHITE] = [[0, 0, 0], [255, 255, 255]];
const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

export class Pad {
  constructor(canvas, onChange) {
    this.canvas = canvas;
    this.onChange = onChange;
    this.strokes = [];
    this.beneath = null; // a picture C x H x W of 0..255
    this.demo = false; // a picture that the first stroke sweeps away
    this.pen = null; // where the keyboard's pen is, once it is used
    this.lowered = false;
    this.drawing = null;
    this.drawable = true;
    this.stamp = document.createElement("canvas");
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => this.end());
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => {
      this.lowered = false;
      this.pen = null;
      this.draw();
    });
    this.draw();
  }

  // Whether there is something to draw with, or pictures are only shown.
  allowDrawing(drawable, label) {
    this.drawable = drawable;
    this.canvas.tabIndex = drawable ? 0 : -1;
    this.canvas.setAttribute("role", drawable ? "application" : "img");
    this.canvas.setAttribute("aria-label", label);
    this.canvas.classList.toggle("still", !drawable);
  }

  get empty() {
    return !this.strokes.length && !this.beneath;
  }

  // The very pixels of a picture that nobody has drawn over.
  get exact() {
    return this.strokes.length ? null : this.beneath;
  }

  clear() {
    this.strokes = [];
    this.beneath = null;
    this.demo = false;
    this.lowered = false;
    this.changed();
  }

  undo() {
    if (this.strokes.length) this.strokes.pop();
    else this.beneath = null;
    this.lowered = false;
    this.changed();
  }

  show(picture, { demo = false, quiet = false } = {}) {
    this.strokes = [];
    this.beneath = picture;
    this.demo = demo;
    if (quiet) this.draw();
    else this.changed();
  }

  changed() {
    this.draw();
    this.onChange();
  }

  begin(event) {
    if (!this.drawable || event.button > 0 || !event.isPrimary) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.pen = null;
    this.addStroke(this.place(event));
    this.drawing = this.strokes.at(-1);
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
  }

  addStroke(point) {
    if (this.demo) this.beneath = null;
    this.demo = false;
    this.strokes.push([point]);
    this.changed();
  }

  move(event) {
    if (!this.drawing || !event.isPrimary) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const one of events.length ? events : [event]) this.drawing.push(this.place(one));
    this.changed();
  }

  end() {
    this.drawing = null;
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * SIDE, ((event.clientY - box.top) / box.height) * SIDE];
  }

  key(event) {
    if (!this.drawable || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in ARROWS) {
      const [dx, dy] = ARROWS[event.key];
      const step = event.shiftKey ? STEP * 3 : STEP;
      const [x, y] = this.pen ?? [SIDE / 2, SIDE / 2];
      this.pen = [x + dx * step, y + dy * step].map((v) => Math.min(SIDE - STEP, Math.max(STEP, v)));
      if (this.lowered) {
        this.strokes.at(-1).push(this.pen);
        this.changed();
      } else this.draw();
    } else if (event.key === " ") {
      this.pen ??= [SIDE / 2, SIDE / 2];
      this.lowered = !this.lowered;
      if (this.lowered) this.addStroke(this.pen);
      else this.draw();
    } else if (event.key === "Backspace") this.undo();
    else if (event.key === "Delete") this.clear();
    else return;
    event.preventDefault();
  }

  draw() {
    const context = this.canvas.getContext("2d");
    this.render(context, BOARD, CHALK);
    if (this.pen) {
      context.beginPath();
      context.arc(...this.pen, this.lowered ? 14 : 20, 0, 7);
      context.lineWidth = 4;
      context.strokeStyle = this.lowered ? "#ff8152" : "#ffb454";
      context.stroke();
    }
  }

  render(context, ground, ink) {
    context.fillStyle = `rgb(${ground})`;
    context.fillRect(0, 0, SIDE, SIDE);
    if (this.beneath) this.renderBeneath(context, ground, ink);
    context.lineWidth = WIDTH;
    context.lineCap = context.lineJoin = "round";
    context.strokeStyle = `rgb(${ink})`;
    for (const points of this.strokes) {
      context.beginPath();
      context.moveTo(...points[0]);
      // Through the middles of the segments: corners of a quick hand become curves.
      for (let n = 1; n < points.length - 1; n++) {
        const [[x, y], [x2, y2]] = [points[n], points[n + 1]];
        context.quadraticCurveTo(x, y, (x + x2) / 2, (y + y2) / 2);
      }
      context.lineTo(...points.at(-1));
      context.stroke();
    }
  }

  // The whole picture as large as it fits, in the middle.
  renderBeneath(context, ground, ink) {
    paint(this.stamp, this.beneath, ink, ground);
    const scale = SIDE / Math.max(this.stamp.width, this.stamp.height);
    const [width, height] = [this.stamp.width * scale, this.stamp.height * scale];
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    context.drawImage(this.stamp, (SIDE - width) / 2, (SIDE - height) / 2, width, height);
  }

  // White on black, for the network: no pen, no tint.
  sheet() {
    const sheet = document.createElement("canvas");
    sheet.width = sheet.height = SIDE;
    this.render(sheet.getContext("2d", { willReadFrequently: true }), BLACK, WHITE);
    return sheet;
  }

  // Half the board's size is plenty for the network, and quicker to pack.
  toBlob() {
    const small = document.createElement("canvas");
    small.width = small.height = SIDE / 2;
    const context = small.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(this.sheet(), 0, 0, SIDE / 2, SIDE / 2);
    return new Promise((resolve) => small.toBlob(resolve));
  }

  // Two overlapping digits as MultiMNIST has them: each some 20 pixels high on a field of 36.
  toField(side = 36) {
    const sheet = this.sheet();
    const data = sheet.getContext("2d").getImageData(0, 0, SIDE, SIDE).data;
    let [left, top, right, bottom] = [SIDE, SIDE, 0, 0];
    for (let y = 0; y < SIDE; y += 2) {
      for (let x = 0; x < SIDE; x += 2) {
        if (data[4 * (y * SIDE + x)] > 40) {
          left = Math.min(left, x);
          right = Math.max(right, x + 2);
          top = Math.min(top, y);
          bottom = Math.max(bottom, y + 2);
        }
      }
    }
    const [width, height] = [Math.max(right - left, 1), Math.max(bottom - top, 1)];
    const scale = Math.min(side / 36 / 20, (side * 28) / 36 / Math.max(width, height));
    const field = document.createElement("canvas");
    field.width = field.height = side;
    const context = field.getContext("2d", { willReadFrequently: true });
    context.imageSmoothingQuality = "high";
    const [w, h] = [width * scale, height * scale];
    context.drawImage(sheet, left, top, width, height, (side - w) / 2, (side - h) / 2, w, h);
    const small = context.getImageData(0, 0, side, side).data;
    return Array.from({ length: side }, (_, row) =>
      Array.from({ length: side }, (_, column) => small[4 * (row * side + column)]),
    );
  }
}
