"""Keeps a run's weights: in the package, or in results/weights for the networks that are only compared with.

With `--half` the learned values are stored in 16 bits if the test set's errors stay the same, else in 32. No file grows
over 15 MB. The test set is read here to compare two ways of storing the same weights, never to choose between weights.

    python benchmarks/keep_weights.py RUN NAME [--package] [--half]
"""

import argparse
import shutil
import tempfile
from pathlib import Path

import capsnet
from capsnet.data import load_dataset
from capsnet.evaluate.metrics import evaluate
from capsnet.files import read_json
from capsnet.saving import BUNDLED

COMPARED = Path(__file__).resolve().parent.parent / "results" / "weights"
LARGEST_FILE = 14_900_000


def test_errors(folder: str | Path) -> int:
    """Wrong images of the whole test set of the data set that the weights were trained on."""
    model = capsnet.load(folder)
    provenance = model.card.provenance
    dataset = load_dataset(provenance["dataset"], **provenance["dataset_options"])
    return evaluate(model, dataset, dataset.test).wrong_images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="a finished run's folder")
    parser.add_argument("name", help="such as capsnet.mnist")
    parser.add_argument("--package", action="store_true", help="into the package, for the wheel")
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    place = (BUNDLED if options.package else COMPARED) / options.name
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        kept = Path(temporary) / "weights"
        model = capsnet.load(options.run)
        capsnet.save(model, kept, half=options.half, largest_file=LARGEST_FILE)
        errors = read_json(options.run / "result.json")["test_errors"]
        if options.half and (halved := test_errors(kept)) != errors:
            print(f"{halved} errors in 16 bits, {errors} in 32: kept in 32.")
            capsnet.save(model, kept, largest_file=LARGEST_FILE)
        shutil.rmtree(place, ignore_errors=True)
        kept.rename(place)
    for file in sorted(place.iterdir()):
        print(f"{file.stat().st_size / 1e6:8.2f} MB  {file}")


if __name__ == "__main__":
    main()
