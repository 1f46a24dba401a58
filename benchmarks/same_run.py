"""Whether a run that was repeated gave the same bits: the weights, and the loss of every epoch.

    python benchmarks/same_run.py runs/pairs/s0 runs/again [--record results/repeats/NAME.json]

The two may differ in whether they read the test set, which is a function of the weights. `--record` keeps what was compared.
"""

import argparse
import hashlib
from pathlib import Path

import torch
from safetensors.torch import load_file

from capsnet.files import read_json, write_json

TAKEN = ("commit", "machine", "device", "threads", "date")


def losses(folder: Path) -> list[float]:
    """The mean training loss of each epoch, to the last digit."""
    return [row["loss"] for row in read_json(folder / "result.json")["curve"]]


def digest(tensors: dict[str, torch.Tensor]) -> str:
    """SHA-256 over names and bytes."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].flatten().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    folders = options.first, options.second
    configs = [{**read_json(folder / "config.json"), "test": None} for folder in folders]
    if configs[0] != configs[1]:
        raise SystemExit("These are not the same run: their config.json differ.")
    digests = [digest(load_file(folder / "last" / "model.safetensors")) for folder in folders]
    curves = [losses(folder) for folder in folders]
    result = {
        "config": configs[0],
        "same_weights": digests[0] == digests[1],
        "same_losses": curves[0] == curves[1],
        "runs": [
            {
                "weights_sha256": sha,
                "losses": curve,
                **{key: value for key, value in read_json(folder / "result.json").items() if key in TAKEN},
            }
            for folder, sha, curve in zip(folders, digests, curves, strict=True)
        ],
    }
    for run in result["runs"]:
        print(run)
    print("the same bits" if result["same_weights"] and result["same_losses"] else "NOT the same bits")
    if options.record:
        write_json(options.record, result)


if __name__ == "__main__":
    main()
