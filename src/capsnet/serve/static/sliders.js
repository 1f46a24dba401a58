// The dimensions of one pose: a slider each, around the value that the network found.

export const REACH = 0.25; // the paper's perturbations go this far
const FRAMES = 33;
const CYCLE = 3200; // milliseconds for a sweep there and back

export class Sliders {
  // `onTurn(offsets)` draws one pose; `onFrames(list of offsets)` gives pictures; `onPicture(picture)` shows one.
  constructor(element, { onTurn, onFrames, onPicture, onStill }) {
    this.element = element;
    this.calls = { onTurn, onFrames, onPicture, onStill };
    this.offsets = [];
    this.sweeping = null;
  }

  build(size) {
    this.offsets = Array(size).fill(0);
    this.rows = this.offsets.map((_, n) => {
      const row = document.createElement("div");
      row.className = "slider";
      const input = Object.assign(document.createElement("input"), {
        type: "range", id: `dimension-${n + 1}`, min: -REACH, max: REACH, step: 0.005, value: 0,
      });
      input.addEventListener("input", () => {
        this.stop();
        this.offsets[n] = Number(input.value);
        this.write(n);
        this.calls.onTurn(this.offsets);
      });
      const label = Object.assign(document.createElement("label"), { htmlFor: input.id, textContent: n + 1 });
      label.title = `Dimension ${n + 1}`;
      const value = document.createElement("output");
      const sweep = Object.assign(document.createElement("button"), { type: "button", className: "sweep", textContent: "▶" });
      sweep.setAttribute("aria-label", `Sweep dimension ${n + 1}`);
      sweep.setAttribute("aria-pressed", "false");
      sweep.addEventListener("click", () => (this.sweeping?.dimension === n ? this.stop() : this.sweep(n)));
      row.append(label, input, value, sweep);
      return row;
    });
    this.element.replaceChildren(...this.rows);
    this.show(null);
  }

  // A new pose, or none; the sliders go back to its own values.
  show(pose, offsets = null) {
    this.stop(true);
    this.pose = pose;
    this.offsets = offsets ?? this.offsets.map(() => 0);
    this.rows?.forEach((row, n) => {
      for (const control of row.querySelectorAll("input, button")) control.disabled = !pose;
      this.write(n);
    });
  }

  write(n) {
    const [, input, value] = this.rows[n].children;
    const number = this.pose ? signed(this.pose[n] + this.offsets[n]) : "";
    input.value = this.offsets[n];
    input.setAttribute("aria-valuetext", number);
    input.style.setProperty("--at", `${50 + (50 * this.offsets[n]) / REACH}%`);
    value.textContent = number;
    this.rows[n].classList.toggle("moved", Math.abs(this.offsets[n]) > 1e-6);
  }

  set(offsets) {
    this.stop(true);
    this.offsets = offsets;
    offsets.forEach((_, n) => this.write(n));
    this.calls.onTurn(offsets);
  }

  reset() {
    this.set(this.offsets.map(() => 0));
  }

  randomise() {
    const normal = () => Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
    this.set(this.offsets.map(() => Math.max(-REACH, Math.min(REACH, 0.07 * normal()))));
  }

  // All frames come in one request; then the animation needs the decoder no more.
  async sweep(dimension) {
    this.stop();
    const run = { dimension, start: this.offsets[dimension] };
    this.sweeping = run;
    this.mark(dimension, true);
    const values = Array.from({ length: FRAMES }, (_, n) => -REACH + (2 * REACH * n) / (FRAMES - 1));
    const pictures = await this.calls.onFrames(values.map((value) => this.offsets.with(dimension, value)));
    if (this.sweeping !== run || !pictures) return;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.calls.onStill(pictures.filter((_, n) => n % 4 === 0), dimension);
      return;
    }
    const begin = performance.now() - (Math.asin(run.start / REACH) / (2 * Math.PI)) * CYCLE;
    const step = (now) => {
      if (this.sweeping !== run) return;
      const value = REACH * Math.sin(((now - begin) / CYCLE) * 2 * Math.PI);
      this.offsets[dimension] = value;
      this.write(dimension);
      this.calls.onPicture(pictures[Math.round(((value + REACH) / (2 * REACH)) * (FRAMES - 1))]);
      run.frame = requestAnimationFrame(step);
    };
    run.frame = requestAnimationFrame(step);
  }

  // The dimension stays where the sweep had brought it, unless `silent`.
  stop(silent = false) {
    const run = this.sweeping;
    if (!run) return;
    cancelAnimationFrame(run.frame);
    this.sweeping = null;
    this.mark(run.dimension, false);
    this.calls.onStill(null);
    if (!silent) this.calls.onTurn(this.offsets);
  }

  mark(dimension, on) {
    const button = this.rows[dimension].lastChild;
    button.textContent = on ? "■" : "▶";
    button.setAttribute("aria-pressed", on);
    this.rows[dimension].classList.toggle("sweeping", on);
  }
}

function signed(value) {
  const text = value.toFixed(2);
  return Number(text) === 0 ? "0.00" : text.replace("-", "−");
}
