// Answers from the server; every refusal becomes an Error with the server's own sentence. `browser.js` answers the same calls without one.

// A server with a token gets it from the page's address (#token=...), once; this tab remembers it.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname + location.search);
}
const token = sessionStorage.getItem("token");
const authorization = token ? { Authorization: `Bearer ${token}` } : {};

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...options.headers, ...authorization } });
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.error ?? `The server answered ${response.status}.`);
  return body;
}

const json = (body) => ({
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify(body),
});

export const getModel = () => ask("v1/model");

export const getSamples = async (seed) => (await ask(`v1/samples?count=10&seed=${seed}`)).samples;

// `top` is how many classes are named and drawn.
const everything = (mode, top) =>
  `v1/predict?model=${mode}&top=${top}&include=poses,coupling,reconstructions,input`;

export async function predictFile(mode, top, file) {
  const form = new FormData();
  form.append("file", await lighter(file), file.name ?? "drawing.png");
  return (await ask(everything(mode, top), { method: "POST", body: form })).predictions[0];
}

export const predictPixels = async (mode, top, image) =>
  (await ask(everything(mode, top), json({ images: [image] }))).predictions[0];

export const reconstruct = async (mode, poses, classes) =>
  (await ask(`v1/reconstruct?model=${mode}`, json({ poses, classes }))).images;

// A photograph may be more than the server takes, and a network needs far less.
async function lighter(file) {
  if (file.size < 1_800_000) return file;
  const bitmap = await createImageBitmap(file).catch(() => null);
  if (!bitmap) return file;
  const scale = Math.min(1, 1200 / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(bitmap.width * scale);
  canvas.height = Math.round(bitmap.height * scale);
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.9));
}
