"""A folder of RGB pictures, as a user might bring one, and Efficient-CapsNet trained on it with one command.

Circles, squares, triangles and crosses of random size, place, turn and light colour on a dark, uneven ground; PNG, JPEG and
WebP of different sizes. The folder depends on its seed alone.

    python benchmarks/own_pictures.py FOLDER [--images 300]
    capsnet train FOLDER --image-size 64 --augment shift,rotate,zoom
"""

import argparse
import math
import random
from pathlib import Path

from PIL import Image, ImageDraw

CLASSES = {"circle": 0, "triangle": 3, "square": 4, "cross": 12}


def outline(corners: int, radius: float, turn: float) -> list[tuple[float, float]]:
    """Points about the origin: a regular polygon, or a cross of twelve corners."""
    if corners == 12:
        arm = radius / 3
        near_and_far = [(arm, radius), (arm, arm), (radius, arm)]
        quarter = [*near_and_far, *((x, -y) for x, y in reversed(near_and_far))]
        points = [*quarter, *((-x, -y) for x, y in quarter)]
    else:
        angles = [2 * math.pi * n / corners for n in range(corners)]
        points = [(radius * math.cos(a), radius * math.sin(a)) for a in angles]
    cos, sin = math.cos(turn), math.sin(turn)
    return [(cos * x - sin * y, sin * x + cos * y) for x, y in points]


def picture(corners: int, chance: random.Random) -> Image.Image:
    width, height = chance.randint(60, 120), chance.randint(60, 120)
    ground = Image.new("RGB", (4, 4))
    ground.putdata([tuple(chance.randint(0, 90) for _ in range(3)) for _ in range(16)])
    image = ground.resize((width, height), Image.Resampling.BICUBIC)
    radius = chance.uniform(0.22, 0.38) * min(width, height)
    x, y = chance.uniform(radius, width - radius), chance.uniform(radius, height - radius)
    colour = tuple(chance.randint(150, 255) for _ in range(3))
    draw = ImageDraw.Draw(image)
    if corners:
        draw.polygon(
            [(x + dx, y + dy) for dx, dy in outline(corners, radius, chance.uniform(0, 2 * math.pi))],
            fill=colour,
        )
    else:
        draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour)
    return image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=300, help="of each class")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    for name, corners in CLASSES.items():
        (options.folder / name).mkdir(parents=True, exist_ok=True)
        for n in range(options.images):
            kind = chance.choice(("png", "jpg", "webp"))
            picture(corners, chance).save(options.folder / name / f"{n:04}.{kind}")


if __name__ == "__main__":
    main()
