"""The memory of training on a folder of many large photographs: generated JPEGs of 12 megapixels, linked many times.

    python benchmarks/folder_memory.py [--pictures 20000] [--size 64] [--limit-gib 3] [--record FILE.json]

Prints the peak of a whole `capsnet train` and of reading alone; the exit code is 1 above the limit. Links to the same
photograph are exact duplicates, so the split is lopsided; memory and time are those of as many different files in the
cache of the disk.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from capsnet.files import write_json
from capsnet.machine import load_average, processor

MEGAPIXELS = (4000, 3000)
CLASSES = ("coast", "forest")
DIFFERENT = 12
READ = """
import sys
from capsnet.data import load_dataset
from capsnet.machine import peak_memory
load_dataset(sys.argv[1], image_size=int(sys.argv[2]))
print(peak_memory())
"""
TRAIN = """
import sys
from capsnet.cli import main
from capsnet.machine import peak_memory
folder, size, out = sys.argv[1:]
main(["train", folder, "--image-size", size, "--images", "300", "--out", out])
print(peak_memory())
"""


def make_folder(folder: Path, pictures: int) -> int:
    """Fill a folder; return the bytes of one photograph."""
    chance = np.random.default_rng(0)
    sources = []
    for n in range(DIFFERENT):
        rough = chance.integers(0, 256, (75, 100, 3), dtype=np.uint8)
        photo = np.asarray(Image.fromarray(rough).resize(MEGAPIXELS, Image.Resampling.BICUBIC), np.int16)
        grain = chance.integers(-12, 13, (*photo.shape[:2], 1), dtype=np.int16)
        sources.append(folder / f"source{n}.jpg")
        Image.fromarray((photo + grain).clip(0, 255).astype(np.uint8)).save(sources[-1], quality=88)
    size = sources[0].stat().st_size
    for label, name in enumerate(CLASSES):
        (folder / "photos" / name).mkdir(parents=True)
        for n in range(pictures // len(CLASSES)):
            os.link(
                sources[label + len(CLASSES) * (n % (DIFFERENT // len(CLASSES)))],
                folder / "photos" / name / f"{n}.jpg",
            )
    return size


def measure(program: str, *arguments: str) -> tuple[float, float]:
    """Run a program in a process of its own; return its peak in GiB and its seconds."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return int(done.stdout.split()[-1]) / 2**30, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--limit-gib", type=float, default=3.0)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--no-training", action="store_true", help="measure reading alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        each = make_folder(Path(place), options.pictures)
        photos, size, run = str(Path(place) / "photos"), str(options.size), str(Path(place) / "run")
        measured = {"reading": measure(READ, photos, size)}
        if not options.no_training:
            measured["training"] = measure(TRAIN, photos, size, run)
    told = {
        "pictures": options.pictures,
        "megapixels": MEGAPIXELS[0] * MEGAPIXELS[1] / 1e6,
        "bytes_each": each,
        "image_size": options.size,
        **{f"{what}_peak_gib": round(peak, 3) for what, (peak, _) in measured.items()},
        **{f"{what}_seconds": round(seconds, 1) for what, (_, seconds) in measured.items()},
        "machine": processor(),
        "load": load_average(),
    }
    print(json.dumps(told, indent=2))
    if options.record:
        write_json(options.record, told)
    if max(peak for peak, _ in measured.values()) > options.limit_gib:
        sys.exit(1)


if __name__ == "__main__":
    main()
