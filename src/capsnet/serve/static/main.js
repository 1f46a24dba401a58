// The page: what is drawn or opened goes to the network, what comes back is shown, what is turned goes to the decoder. Who
// computes is told by the document: a server, or this browser itself.

import { Camera } from "./camera.js";
import { latest } from "./latest.js";
import { Pad } from "./pad.js";
import { COLOURS, clear, paint, paintBoth, savePng } from "./paint.js";
import { Rows } from "./rows.js";
import { Samples } from "./samples.js";
import { Sliders } from "./sliders.js";
import { facts, verdict, wordsFor } from "./words.js";

const network = await import(document.documentElement.dataset.backend === "browser" ? "./browser.js" : "./server.js");
const $ = (id) => document.getElementById(id);
const state = { mode: "main", model: null, words: null, prediction: null, slots: [], chosen: null, offsets: new Map(), pictures: new Map() };
const rows = new Rows($("rows"), choose);
const pad = new Pad($("pad"), () => update());
const sliders = new Sliders($("sliders"), {
  onTurn: (offsets) => turn(state.chosen, [...offsets]),
  onFrames: (frames) => guarded(() => draw(state.chosen, frames)),
  onPicture: (picture) => {
    state.pictures.set(state.chosen, picture);
    showPictures();
  },
  onStill: showFilm,
});
const samples = new Samples({ strip: $("strip"), shuffle: $("shuffle"), getSamples: network.getSamples, onPick: (picture, demo) => pad.show(picture, { demo }), onProblem: say });

const camera = new Camera({ video: $("video"), button: $("camera"), onPicture: openFile, onProblem: say });

const served = () => (state.mode === "pairs" ? state.model.pairs : state.model);
const tops = () => (state.words.kind === "pair" ? 2 : 1);
const name = (index) => served().class_names[index];

function say(problem) {
  $("problem").hidden = !problem;
  $("problem").textContent = problem?.message ?? problem ?? "";
}

async function guarded(call) {
  try {
    const result = await call();
    say(null);
    return result;
  } catch (problem) {
    say(problem);
    return null;
  }
}

const update = latest(async () => {
  $("invitation").hidden = !pad.empty;
  if (pad.empty) return showPrediction(null);
  const mode = state.mode;
  const top = tops();
  const prediction = await guarded(async () => {
    if (pad.exact) return network.predictPixels(mode, top, pad.exact);
    if (state.words.kind === "pair") return network.predictPixels(mode, top, [pad.toField(served().picture_shape[1])]);
    return network.predictFile(mode, top, await pad.toBlob());
  });
  if (mode === state.mode && prediction && !pad.empty) showPrediction(prediction);
});

function showPrediction(prediction) {
  const names = served().class_names;
  state.prediction = prediction;
  state.offsets.clear();
  state.pictures.clear();
  state.slots = prediction ? (prediction.classes ?? [prediction.class]).map((k) => names.indexOf(k)) : [];
  state.chosen = state.slots[0] ?? null;
  for (const { class: k, image } of prediction?.reconstructions ?? []) state.pictures.set(names.indexOf(k), image);
  if (prediction) paint($("input"), prediction.input);
  else clear($("input"));
  showAnswer();
  showChosen();
  showPictures();
}

function showAnswer() {
  const { prediction, slots } = state;
  $("answer").replaceChildren(
    ...(prediction ? slots : []).map((index, n) => {
      const answer = Object.assign(document.createElement("span"), { textContent: name(index) });
      if (slots.length > 1) answer.style.color = `rgb(${COLOURS[n]})`;
      return answer;
    }),
  );
  if (!prediction) $("answer").textContent = "–";
  $("answer").classList.toggle("unsure", prediction?.likely === false);
  $("answer").classList.toggle("wide", Math.max(...slots.map((k) => name(k).length), 0) * slots.length > 2);
  const sentence = verdict(served(), state.words, prediction, slots);
  $("sentence").textContent = sentence;
  clearTimeout(showAnswer.timer);
  showAnswer.timer = setTimeout(() => ($("live").textContent = sentence), 700);
}

function choose(index) {
  if (!state.slots.includes(index)) state.slots[Math.max(0, state.slots.indexOf(state.chosen))] = index;
  state.chosen = index;
  showChosen();
  if (state.pictures.has(index)) showPictures();
  else turn(index, state.offsets.get(index) ?? null);
}

function showChosen() {
  const { prediction, chosen, slots } = state;
  const model = served();
  const scores = prediction && model.class_names.map((k) => prediction.scores[k]);
  rows.show({ scores, coupling: prediction?.coupling, chosen, slots });
  const turnable = prediction && model.has_capsules && model.has_decoder;
  sliders.show(turnable ? prediction.poses[chosen] : null, state.offsets.get(chosen));
  $("sliders-title").textContent = turnable ? `The ${model.pose_shape[1]} dimensions of capsule ${name(chosen)}` : "Its dimensions";
  for (const id of ["reset", "random", "save"]) $(id).disabled = !turnable;
}

// The pictures of one class's pose, moved by each of the given offsets.
function draw(index, frames) {
  const pose = state.prediction.poses[index];
  const poses = frames.map((offsets) => pose.map((value, n) => value + (offsets?.[n] ?? 0)));
  return network.reconstruct(state.mode, poses, frames.map(() => index));
}

const turn = latest(async (index, offsets) => {
  const { prediction } = state;
  if (!prediction || !served().has_decoder || !served().has_capsules) return;
  if (offsets) state.offsets.set(index, offsets);
  const pictures = await guarded(() => draw(index, [offsets]));
  if (!pictures || prediction !== state.prediction || sliders.sweeping) return;
  state.pictures.set(index, pictures[0]);
  showPictures();
});

function showPictures() {
  const pictures = state.slots.map((index) => state.pictures.get(index));
  const pair = state.words.kind === "pair";
  const [picture, caption] = [$("picture"), $("picture-caption")];
  if (!state.slots.length || pictures.includes(undefined)) {
    if (!state.slots.length) [picture, $("first"), $("second")].forEach(clear);
    caption.textContent = pair ? "both capsules draw" : "the capsule draws";
    return;
  }
  if (pair) {
    paintBoth(picture, pictures);
    caption.textContent = "both capsules draw";
    ["first", "second"].forEach((id, n) => {
      paint($(id), pictures[n], COLOURS[n]);
      $(id).setAttribute("aria-label", `What capsule ${name(state.slots[n])} draws`);
      $(id).nextElementSibling.textContent = `capsule ${name(state.slots[n])}`;
    });
  } else {
    paint(picture, pictures[0]);
    caption.textContent = `capsule ${name(state.slots[0])} draws`;
  }
}

// A sweep for those who asked their system for less motion: its frames side by side.
function showFilm(pictures, dimension) {
  $("film").hidden = !pictures;
  if (!pictures) return;
  $("film").setAttribute("aria-label", `Dimension ${dimension + 1} from its lowest to its highest value`);
  $("film").replaceChildren(
    ...pictures.map((picture) => {
      const frame = document.createElement("canvas");
      paint(frame, picture);
      return frame;
    }),
  );
}

async function openFile(file) {
  if (!file || !state.model) return;
  camera.close();
  const prediction = await guarded(() => network.predictFile(state.mode, tops(), file));
  if (!prediction) return;
  pad.show(prediction.input, { quiet: true });
  $("invitation").hidden = true;
  showPrediction(prediction);
}

function enter(mode) {
  say(null);
  camera.close();
  state.mode = mode;
  const model = served();
  const words = wordsFor(model, mode === "pairs" || model.classes_per_image === 2);
  state.words = words;
  document.body.dataset.kind = words.kind;
  $("draw-word").textContent = words.step;
  $("invitation").textContent = words.invitation;
  $("samples-title").textContent = words.samples;
  $("picture-help").textContent = words.help ?? "";
  $("measure").textContent = words.measure;
  for (const id of ["undo", "pad-help"]) $(id).hidden = !words.drawn;
  $("picture-help").hidden = words.drawn;
  $("camera").hidden = words.kind !== "photograph" || !camera.available;
  $("slots").hidden = words.kind !== "pair";
  rows.build(model.class_names, model.input_capsules, words.measure);
  $("heat-heading").textContent = rows.cells ? "coupling" : "";
  const turnable = model.has_capsules && model.has_decoder;
  $("heat-hint").textContent = rows.cells
    ? `Each of the ${rows.cells} columns is a capsule of the layer below: the stronger a cell, the more of its vote goes to that class. Choose a row to turn its capsule.`
    : turnable ? "Choose a row to turn that capsule." : "";
  $("turning").hidden = !turnable;
  $("still").hidden = turnable;
  sliders.build(turnable ? model.pose_shape[1] : 0);
  $("facts").textContent = facts(model);
  pad.allowDrawing(words.drawn, words.board);
  pad.clear();
  if (state.model.has_samples) samples.enter(words.kind === "pair", model.picture_shape, true);
}

function theme() {
  const root = document.documentElement;
  const stored = localStorage.getItem("theme");
  if (stored) root.dataset.theme = stored;
  $("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
  });
}

function wire() {
  $("undo").addEventListener("click", () => pad.undo());
  $("clear").addEventListener("click", () => pad.clear());
  $("reset").addEventListener("click", () => sliders.reset());
  $("random").addEventListener("click", () => sliders.randomise());
  $("save").addEventListener("click", () => savePng($("picture"), `capsule-${state.slots.map(name).join("-")}.png`));
  $("file").addEventListener("change", (event) => {
    openFile(event.target.files[0]);
    event.target.value = "";
  });
  for (const input of document.querySelectorAll('[name="mode"]')) input.addEventListener("change", () => enter(input.value));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    sliders.stop();
    camera.close();
  });
  $("pad").addEventListener("click", () => pad.drawable || $("file").click());
  window.addEventListener("paste", (event) => openFile(event.clipboardData?.files[0]));
  // A picture that misses the board must not replace the page.
  for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
  $("board").addEventListener("dragover", () => $("board").classList.add("over"));
  for (const kind of ["dragleave", "drop"]) $("board").addEventListener(kind, () => $("board").classList.remove("over"));
  window.addEventListener("drop", (event) => openFile(event.dataTransfer.files[0]));
}

theme();
wire();
state.model = await guarded(network.getModel);
if (state.model) {
  $("samples").hidden = !state.model.has_samples;
  $("modes").hidden = !state.model.pairs;
  enter("main");
}
