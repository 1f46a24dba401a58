// Pictures C x H x W of 0..255 on canvases.

export const COLOURS = [
  [255, 180, 84],
  [92, 200, 255],
];
export const CHALK = [255, 247, 234];
export const BOARD = [16, 15, 21];

const mix = (from, to, share) => from.map((a, i) => a + (to[i] - a) * share);

export function clear(canvas) {
  const context = canvas.getContext("2d");
  context.fillStyle = `rgb(${BOARD})`;
  context.fillRect(0, 0, canvas.width, canvas.height);
}

// One picture: grey as chalk on a board, in its own colours, or a stereo pair side by side.
export function paint(canvas, picture, colour = CHALK, ground = BOARD) {
  const shown = picture.length === 2 ? [picture[0].map((line, row) => [...line, ...picture[1][row]])] : picture;
  const rgb = shown.length === 3;
  fill(canvas, shown[0], (row, column) =>
    rgb ? shown.map((channel) => channel[row][column]) : mix(ground, colour, shown[0][row][column] / 255),
  );
}

// Two pictures in two colours; where both have ink the light adds up.
export function paintBoth(canvas, pictures) {
  fill(canvas, pictures[0][0], (row, column) =>
    BOARD.map((ground, i) =>
      Math.min(255, ground + pictures.reduce((sum, p, n) => sum + ((COLOURS[n][i] - ground) * p[0][row][column]) / 255, 0)),
    ),
  );
}

function fill(canvas, like, pixel) {
  const [height, width] = [like.length, like[0].length];
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let row = 0, at = 0; row < height; row++) {
    for (let column = 0; column < width; column++, at += 4) {
      image.data.set(pixel(row, column), at);
      image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

// Each pixel becomes a square of ten, so that the file can be looked at.
export function savePng(canvas, name) {
  const large = document.createElement("canvas");
  large.width = canvas.width * 10;
  large.height = canvas.height * 10;
  const context = large.getContext("2d");
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, large.width, large.height);
  large.toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
