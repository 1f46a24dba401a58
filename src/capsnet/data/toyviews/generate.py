"""Making toyviews: 50 instances rendered one by one, each kept as soon as it is finished, then put together.

Finished instances lie in `.parts`, their digest in the file's name; a later call takes them up where they are
whole. They are deleted when the set is complete. Everything is written there first and then moved to its place, so a crash
leaves the old set or the new one, and what a killed process leaves is deleted by the call that finishes the set.
"""

import hashlib
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsnet.data.toyviews import render, shapes, store
from capsnet.data.toyviews.design import SPLITS, Design, azimuth_degrees, elevation_degrees, factors
from capsnet.data.toyviews.surface import sample
from capsnet.errors import CapsNetError
from capsnet.files import atomic_write, replacing
from capsnet.machine import cores

Progress = Callable[[int, int], None]  # instances done, instances in all


def render_instance(category: int, instance: int, *, seed: int, design: Design) -> NDArray[np.uint8]:
    """(views, lightings, 2, S, S), views by elevation, then azimuth."""
    scene = render.scene(
        sample(
            shapes.body(category, instance, seed=seed),
            spacing=render.SPACING * render.SIZE / design.size,
            reach=shapes.reach(category, instance, seed=seed),
        ),
        size=design.size,
    )
    pictures = np.empty(design.part_shape, dtype=np.uint8)
    for column, azimuth in enumerate(design.azimuths):
        lit = render.Lit(scene, azimuth_degrees(azimuth))
        for row, elevation in enumerate(design.elevations):
            for eye in (0, 1):
                layers = lit.view(elevation_degrees(elevation), eye)
                pictures[row * len(design.azimuths) + column, :, eye] = render.expose(layers)
    return pictures


def make(
    folder: str | Path,
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: Progress | None = None,
    design: Design | None = None,
) -> Path:
    """Generates the set in `folder`, or what is missing of it, and gives the folder back.

    A folder that holds the whole set of this seed is left as it is. With one worker everything happens in
    this process; more, by default as many as there are cores, are processes of their own, so a script needs
    `if __name__ == "__main__":` for them.
    """
    folder = Path(folder)
    design = design or Design()
    report = progress or (lambda done, total: None)
    members = design.members(seed=seed)
    if _complete(folder, seed, design):
        report(len(members), len(members))
        return folder
    parts = folder / ".parts" / _signature(seed, design)
    try:
        parts.mkdir(parents=True, exist_ok=True)
        missing = [member for member in members if _finished(parts, *member) is None]
        report(len(members) - len(missing), len(members))
        for count, _ in enumerate(_render_all(parts, missing, seed, design, workers or cores()), start=1):
            report(len(members) - len(missing) + count, len(members))
        _assemble(folder, parts, seed, design)
        shutil.rmtree(folder / ".parts", ignore_errors=True)
    except (OSError, CapsNetError) as error:
        reason = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise CapsNetError(
            f"toyviews could not be written in {folder} ({reason}): it needs "
            "2 GB of free space there while it is made; run `capsnet data make toyviews` again to go on."
        ) from error
    return folder


def _signature(seed: int, design: Design) -> str:
    """What the pictures depend on; parts of anything else are not taken up."""
    text = f"{store.VERSION} {seed} {design}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _complete(folder: Path, seed: int, design: Design) -> bool:
    try:
        manifest = store.read_manifest(folder)
        return manifest["signature"] == _signature(seed, design) and all(
            store.digest(folder / f"{split}.npz") == manifest["splits"][split]["sha256"] for split in SPLITS
        )
    except (CapsNetError, OSError, KeyError):
        return False


def _finished(parts: Path, category: int, instance: int) -> Path | None:
    for path in parts.glob(f"{shapes.CATEGORIES[category]}-{instance}.*.npy"):
        if store.digest(path)[:32] == path.name.split(".")[1]:
            return path
        path.unlink()
    return None


def _render_part(parts: Path, category: int, instance: int, seed: int, design: Design) -> None:
    name = f"{shapes.CATEGORIES[category]}-{instance}"
    file = BytesIO()
    np.lib.format.write_array(
        file, render_instance(category, instance, seed=seed, design=design), allow_pickle=False
    )
    content = file.getvalue()
    atomic_write(parts / f"{name}.{hashlib.sha256(content).hexdigest()[:32]}.npy", content)


def _render_all(
    parts: Path, missing: list[tuple[int, int]], seed: int, design: Design, workers: int
) -> Iterator[None]:
    if workers <= 1 or len(missing) <= 1:
        for member in missing:
            _render_part(parts, *member, seed, design)
            yield
        return
    # spawn, not fork: the caller may hold torch's threads, which a fork would leave behind locked.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(missing)), mp_context=context) as pool:
        jobs = [pool.submit(_render_part, parts, *member, seed, design) for member in missing]
        try:
            for job in as_completed(jobs):
                job.result()
                yield
        finally:
            pool.shutdown(cancel_futures=True)


def _assemble(folder: Path, parts: Path, seed: int, design: Design) -> None:
    # Names of this process, as two may make the same set at once.
    made = {
        name: parts / f"{os.getpid()}-{name}"
        for name in (*(f"{split}.npz" for split in SPLITS), store.MANIFEST)
    }
    try:
        splits = {
            split: _assemble_split(made[f"{split}.npz"], parts, split, seed, design) for split in SPLITS
        }
        text = json.dumps(_manifest(splits, seed, design), indent=1) + "\n"
        atomic_write(made[store.MANIFEST], text.encode())
        for name, path in made.items():
            os.replace(path, folder / name)
    finally:
        for path in made.values():
            path.unlink(missing_ok=True)


def _assemble_split(path: Path, parts: Path, split: str, seed: int, design: Design) -> dict[str, Any]:
    """Writes a split's file to `path`, and says for the manifest what is in it."""
    labels, info = factors(design, split, seed=seed)
    images = np.empty((design.pairs, 2, design.size, design.size), dtype=np.uint8)
    for member in np.unique(np.stack([labels, info[:, 0]], axis=1), axis=0):
        category, instance = (int(value) for value in member)
        part = _finished(parts, category, instance)
        assert part is not None
        own = (labels == category) & (info[:, 0] == instance)
        images[own] = np.load(part, allow_pickle=False).reshape(-1, 2, design.size, design.size)
    with replacing(path) as temporary:
        store.write_arrays(temporary, {"images": images, "labels": labels, "info": info})
    return {
        "pairs": design.pairs,
        "sha256": store.digest(path),
        "images_sha256": hashlib.sha256(images.data).hexdigest(),
    }


def _manifest(splits: dict[str, Any], seed: int, design: Design) -> dict[str, Any]:
    return {
        "name": "toyviews",
        "version": store.VERSION,
        "seed": seed,
        "size": design.size,
        "signature": _signature(seed, design),
        "categories": list(shapes.CATEGORIES),
        "kinds": [
            [shapes.kind(category, instance, seed=seed) for instance in range(shapes.INSTANCES)]
            for category in range(len(shapes.CATEGORIES))
        ],
        "splits": splits,
    }
