// Is a picture none of the classes? The rules of the weights' card, as `capsnet/detection` applies them.

const LIKELY = 0.5;
const LOW = `no class scores ${LIKELY} or more`;
const BLANK = "it is blank";

const REASONS = {
  votes: "its parts are not as those of its best class are",
  reconstruction: "it does not look like what its best class stands for",
  length: "no class scores as high as its own pictures do",
};

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length / 4 }, (_, n) => view.getFloat32(4 * n, true));
}

// The mean square of what is left of the parts after subtracting the class's mean and whitening.
function distance(kept, parts, best) {
  const { size } = kept;
  kept.unpacked ??= { means: unpack(kept.means), whiten: unpack(kept.whiten) };
  const { means, whiten } = kept.unpacked;
  const off = Array.from(parts, (value, i) => value - means[best * size + i]);
  let [total, at] = [0, 0];
  for (let row = 0; row < size; row += 1) {
    let sum = 0;
    for (let column = 0; column <= row; column += 1, at += 1) sum += whiten[at] * off[column];
    total += sum * sum;
  }
  return total / size;
}

function meanSquare(a, b) {
  return a.reduce((sum, value, n) => sum + (value - b[n]) ** 2, 0) / a.length;
}

// What each measure gives; null where there is nothing to compute it from.
function measures(detection, best, { scores, image, drawn, parts }) {
  const fits = parts && detection.parts?.size === parts.length;
  return {
    votes: fits ? distance(detection.parts, parts, best) : null,
    reconstruction: drawn ? meanSquare(image, drawn) : null,
    length: 1 - scores[best],
  };
}

// Why a picture is probably none of the classes; null if it is one. `seen`: scores, and as flat arrays the image as the network
// takes it, the picture drawn of the best class, and the parts.
export function whyUnlikely(detection, blank, seen) {
  if (blank) return BLANK;
  const best = seen.scores.indexOf(Math.max(...seen.scores));
  if (!detection) return seen.scores[best] >= LIKELY ? null : LOW;
  const found = measures(detection, best, seen);
  const rule = detection.rules.find(({ measures }) => Object.keys(measures).every((name) => (found[name] ?? null) !== null));
  let [sum, most, which] = [0, -Infinity, null];
  for (const [name, { weight, means, limit }] of Object.entries(rule.measures)) {
    const multiple = found[name] / means[best];
    sum += weight * multiple;
    if (multiple / limit > most) [most, which] = [multiple / limit, name];
  }
  return sum > rule.threshold ? REASONS[which] : null;
}
