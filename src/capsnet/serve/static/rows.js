// One row per class: a radio button, its capsule's length or score as a bar, and how the capsules below share their votes with it.

const FULL = 0.6; // the share that gets the full colour; few are larger
const MOST_CELLS = 64; // more would be thinner than a finger or an eye
const MANY = 20; // more rows get a box of their own to scroll in

export class Rows {
  constructor(element, onChoose) {
    this.element = element;
    this.onChoose = onChoose;
  }

  // `word` is what the bars show.
  build(names, cells, word) {
    this.names = names;
    this.word = word;
    this.cells = cells && cells <= MOST_CELLS ? cells : 0;
    this.element.style.setProperty("--cells", this.cells);
    this.element.classList.toggle("plain", !this.cells);
    this.element.classList.toggle("many", names.length > MANY);
    // One width for the names of all rows: the longest, within bounds that the style sheet sets.
    const longest = Math.max(...names.map((name) => [...name].length));
    this.element.classList.toggle("wordy", longest > 2);
    this.element.parentElement.style.setProperty("--longest", longest);
    this.rows = names.map((name, index) => {
      const row = document.createElement("label");
      row.className = "row";
      const input = Object.assign(document.createElement("input"), { type: "radio", name: "capsule", value: index });
      input.addEventListener("change", () => this.onChoose(index));
      const bar = span("bar");
      bar.append(span("fill"));
      const heat = span("heat");
      for (let cell = 0; cell < this.cells; cell++) heat.append(document.createElement("i"));
      heat.setAttribute("role", "img");
      row.title = name;
      row.append(input, span("name", name), bar, span("value", "0.00"), heat);
      return row;
    });
    this.element.replaceChildren(...this.rows);
  }

  // `slots` are the classes whose pictures are shown: one, or two in their two colours.
  show({ scores, coupling, chosen, slots }) {
    this.rows.forEach((row, index) => {
      const score = scores ? scores[index] : 0;
      const [input, , bar, value, heat] = row.children;
      input.disabled = !scores;
      input.checked = index === chosen;
      const slot = slots.indexOf(index);
      row.dataset.slot = slots.length > 1 && slot >= 0 ? slot : "";
      row.classList.toggle("best", slot >= 0);
      bar.firstChild.style.transform = `scaleX(${Math.min(1, score)})`;
      value.textContent = score.toFixed(2);
      input.setAttribute("aria-label", `${this.names[index]}, ${this.word} ${score.toFixed(2)}`);
      if (this.cells) this.showHeat(heat, coupling?.[index], index);
    });
    if (this.rows.length > MANY && chosen !== null) this.reveal(this.rows[chosen]);
  }

  // Scrolls the box, never the page.
  reveal(row) {
    const [box, place] = [this.element.getBoundingClientRect(), row.getBoundingClientRect()];
    if (place.top < box.top) this.element.scrollTop -= box.top - place.top;
    else if (place.bottom > box.bottom) this.element.scrollTop += place.bottom - box.bottom;
  }

  showHeat(heat, shares, index) {
    const cells = [...heat.children];
    cells.forEach((cell, n) => {
      const share = shares?.[n] ?? 0;
      cell.style.setProperty("--share", `${Math.round(Math.min(100, 100 * (share / FULL)))}%`);
      cell.title = shares ? `Primary capsule ${n + 1} gives ${Math.round(100 * share)} % to ${this.names[index]}` : "";
    });
    const mean = shares ? shares.reduce((a, b) => a + b, 0) / shares.length : 0;
    heat.setAttribute("aria-label", `coupling ${Math.round(100 * mean)} % on average`);
  }
}

function span(name, text = "") {
  return Object.assign(document.createElement("span"), { className: name, textContent: text });
}
