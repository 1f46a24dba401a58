"""What it costs to read and validate a digit of JSON pixels: msgspec, pydantic (where it is installed), json with a check.

All three end in the same float32 array; what is given is the process's own time. The server uses the first; see
`capsnet.serve.messages`.

    python benchmarks/validation.py [--record]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import torch

from capsnet.data import load_dataset
from capsnet.files import write_json
from capsnet.serve.messages import closed, nested
from capsnet.train.provenance import provenance

RECORD = Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "validation.json"
SIDE = 28
ROUNDS, CALLS = 15, 400


def with_msgspec() -> Callable[[bytes], np.ndarray]:
    pixel = Annotated[float, msgspec.Meta(ge=0, le=255)]
    decoder = msgspec.json.Decoder(closed("Images", images=list[nested(pixel, (SIDE, SIDE))]))  # type: ignore[misc]
    return lambda body: np.array(decoder.decode(body).images, dtype=np.float32)


def with_pydantic() -> Callable[[bytes], np.ndarray]:
    from pydantic import BaseModel, ConfigDict, Field

    pixel = Annotated[float, Field(ge=0, le=255)]
    row = Annotated[list[pixel], Field(min_length=SIDE, max_length=SIDE)]
    image = Annotated[list[row], Field(min_length=SIDE, max_length=SIDE)]

    class Images(BaseModel):
        model_config = ConfigDict(extra="forbid")
        images: list[image]

    return lambda body: np.array(Images.model_validate_json(body).images, dtype=np.float32)


def with_json() -> Callable[[bytes], np.ndarray]:
    def read(body: bytes) -> np.ndarray:
        value = json.loads(body)
        images = value["images"]
        if set(value) != {"images"} or any(type(x) not in (int, float) for i in images for r in i for x in r):
            raise ValueError("not images")
        array = np.asarray(images, dtype=np.float32)
        if array.shape[1:] != (SIDE, SIDE) or not (array.min() >= 0 and array.max() <= 255):
            raise ValueError("not images")
        return array

    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help=f"keep the result as {RECORD.name}")
    options = parser.parse_args()
    image = load_dataset("mnist").test.images[0, 0].tolist()
    body = json.dumps({"images": [image]}, separators=(",", ":")).encode()
    readers = {"msgspec": with_msgspec, "pydantic": with_pydantic, "json and a check": with_json}
    made = {}
    for name, make in readers.items():
        try:
            made[name] = make()
        except ImportError:
            print(f"{name} is not installed")
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(ROUNDS):
        for name, read in made.items():
            began = time.process_time()
            for _ in range(CALLS):
                read(body)
            times[name].append(1e6 * (time.process_time() - began) / CALLS)
    result = {
        **provenance(torch.device("cpu"), 1),
        "microseconds": {name: round(statistics.median(values), 1) for name, values in times.items()},
    }
    print(result["microseconds"])
    if options.record:
        write_json(RECORD, result)


if __name__ == "__main__":
    main()
