// A picture's plane made smaller or larger: antialiased bicubic as Pillow has it, so that the browser prepares what the server does.

const A = -0.5;
const SUPPORT = 2;
const ONE = 2 ** 22; // fixed point of the weights of whole numbers

function bicubic(x) {
  const d = Math.abs(x);
  if (d < 1) return ((A + 2) * d - (A + 3)) * d * d + 1;
  if (d < 2) return (((d - 5) * d + 8) * d - 4) * A;
  return 0;
}

// For each new pixel the first old one that it is made from, and their weights.
function weights(from, to) {
  const scale = from / to;
  const wide = Math.max(scale, 1);
  return Array.from({ length: to }, (_, n) => {
    const centre = (n + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - SUPPORT * wide + 0.5));
    const last = Math.min(from, Math.trunc(centre + SUPPORT * wide + 0.5));
    const shares = Array.from({ length: last - first }, (_, i) => bicubic((first + i - centre + 0.5) / wide));
    const sum = shares.reduce((a, b) => a + b, 0);
    return { first, shares: shares.map((share) => share / sum) };
  });
}

const fixed = (share) => Math.trunc(share * ONE + (share < 0 ? -0.5 : 0.5));
const toByte = (sum) => Math.min(255, Math.max(0, Math.floor((sum + ONE / 2) / ONE)));

// Across, and given the result with its axes exchanged: twice that is both ways.
function across({ width, height, data }, target, bytes) {
  const out = new Float64Array(target * height);
  const table = width === target ? null : weights(width, target);
  if (bytes && table) for (const entry of table) entry.shares = entry.shares.map(fixed);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < target; x++) {
      let sum = 0;
      if (!table) sum = data[y * width + x];
      else {
        const { first, shares } = table[x];
        for (let i = 0; i < shares.length; i++) sum += data[y * width + first + i] * shares[i];
        sum = bytes ? toByte(sum) : Math.fround(sum);
      }
      out[x * height + y] = sum;
    }
  }
  return { width: height, height: target, data: out };
}

// A plane {width, height, data}; of `bytes` each step is rounded to 0..255.
export function resize(plane, width, height, bytes) {
  return across(across(plane, width, bytes), height, bytes);
}
