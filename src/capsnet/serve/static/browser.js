// Answers from this page itself: ONNX Runtime as WebAssembly computes the exported encoder and decoder, and nothing leaves the
// browser. The same calls and answers as `server.js`.

import * as ort from "../runtime/ort.js";
import { whyUnlikely } from "./detect.js";
import { round } from "./digit.js";
import { normalise, readPicture } from "./prepare.js";

const STRIP = 10;

async function load(path, kind) {
  const response = await fetch(path).catch(() => null);
  if (!response?.ok) throw new Error(`The file ${path} is missing beside this page.`);
  return response[kind]();
}

// The folder has the runtime packed; a server that unpacks such files by itself does no harm.
async function unpacked(path) {
  const bytes = await load(path, "arrayBuffer");
  const [first, second] = new Uint8Array(bytes);
  if (first !== 0x1f || second !== 0x8b) return bytes;
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

async function open() {
  const [runtime, model, encoder] = await Promise.all([
    unpacked("runtime/ort.wasm.gz"),
    load("model.json", "json"),
    load("encoder.onnx", "arrayBuffer"),
  ]);
  ort.env.logLevel = "error";
  Object.assign(ort.env.wasm, { numThreads: 1, wasmBinary: runtime });
  return { model, encoder: await ort.InferenceSession.create(encoder, { executionProviders: ["wasm"] }) };
}

const opened = open();
opened.catch(() => {}); // told by whoever awaits it
let decoder = null;
let last = Promise.resolve();

// A session computes one thing at a time.
function compute(session, inputs) {
  last = last.catch(() => {}).then(() => session.run(inputs));
  return last;
}

export const getModel = async () => (await opened).model;

let stored = null;

// One image each of so many classes, others for another seed.
export async function getSamples(seed) {
  stored ??= (await load("samples.json", "json")).samples;
  const names = [...new Set(stored.map((sample) => sample.class))];
  const first = names.length > STRIP ? seed % names.length : 0;
  return [...names.slice(first), ...names.slice(0, first)].slice(0, STRIP).map((name, n) => {
    const own = stored.filter((sample) => sample.class === name);
    return own[(seed + n * n) % own.length];
  });
}

export async function predictFile(mode, top, file) {
  const { model } = await opened;
  return predictPixels(mode, top, await readPicture(file, model));
}

export async function predictPixels(mode, top, picture) {
  const { model, encoder } = await opened;
  const image = normalise(picture, model);
  const images = new ort.Tensor("float32", image, [1, ...model.image_shape]);
  const output = await compute(encoder, { images });
  const scores = Array.from(output.scores.data);
  const order = scores.map((_, k) => k).sort((a, b) => scores[b] - scores[a] || a - b).slice(0, top);
  const names = order.map((k) => model.class_names[k]);
  const poses = nested(output.poses.data, model.pose_shape);
  const prediction = {
    class: names[0],
    score: scores[order[0]],
    scores: Object.fromEntries(scores.map((score, k) => [model.class_names[k], score])),
    poses,
    coupling: output.coupling ? nested(output.coupling.data, [scores.length, model.input_capsules]) : null,
    input: picture,
    reconstructions: [],
  };
  if (top > 1) prediction.classes = names;
  let drawn = null;
  if (model.has_decoder) {
    const pictures = await draw(model, order.map(() => Array.from(output.poses.data)), order);
    drawn = pictures.data.subarray(0, image.length);
    prediction.reconstructions = toPixels(pictures).map((pixels, n) => ({ class: names[n], image: pixels }));
  }
  const blank = !picture.some((channel) => channel.some((line) => line.some(Boolean)));
  prediction.reason = whyUnlikely(model.detection, blank, { scores, image, drawn, parts: output.parts?.data });
  prediction.likely = prediction.reason === null;
  return prediction;
}

// Of each picture only the pose of the class that is drawn.
export async function reconstruct(mode, poses, classes) {
  const { model } = await opened;
  const [count, size] = model.pose_shape;
  const whole = poses.map((pose, n) => {
    const all = Array(count * size).fill(0);
    pose.forEach((value, i) => (all[classes[n] * size + i] = value));
    return all;
  });
  return toPixels(await draw(model, whole, classes));
}

async function draw(model, poses, classes) {
  decoder ??= load("decoder.onnx", "arrayBuffer").then((bytes) => ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] }));
  const session = await decoder;
  const known = {
    poses: () => new ort.Tensor("float32", Float32Array.from(poses.flat()), [poses.length, ...model.pose_shape]),
    classes: () => new ort.Tensor("int64", BigInt64Array.from(classes, BigInt), [classes.length]),
  };
  const inputs = Object.fromEntries(session.inputNames.map((name) => [name, known[name]()]));
  const { reconstruction } = await compute(session, inputs);
  return reconstruction;
}

function toPixels({ data, dims }) {
  return nested(data.map((value) => round(Math.min(255, Math.max(0, value * 255)))), dims);
}

// A flat array as lists in lists.
function nested(data, shape) {
  if (shape.length === 1) return Array.from(data);
  const part = data.length / shape[0];
  return Array.from({ length: shape[0] }, (_, n) => nested(data.subarray(n * part, (n + 1) * part), shape.slice(1)));
}
