"""The playground without a server: `capsnet export --format web` writes a folder that any static file server can offer.

The page is the server's own (`static/`); `browser.js` answers it instead of `server.js`, with the int8 encoder and decoder in
ONNX Runtime's WebAssembly build. That build comes from the npm package `onnxruntime-web`, of which two files are needed, and is
not part of this package; it is taken from where the user has it, if it is the version that is known here by its checksums.

    index.html, static/             the page
    model.json, samples.json        what a server answers at /v1/model and /v1/samples
    encoder.onnx, decoder.onnx      int8, and card.json beside them: `capsnet serve` takes the folder too
    runtime/                        ONNX Runtime
"""

import gzip
import hashlib
import json
import shutil
import tarfile
import zlib
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import capsnet
from capsnet.data.base import DataSet
from capsnet.errors import CapsNetError
from capsnet.export.write import export_model
from capsnet.files import atomic_write, new_folder, write_json
from capsnet.opening import OpenedWeights
from capsnet.serve.network import Network
from capsnet.serve.onnx_network import OnnxNetwork
from capsnet.serve.samples import gather, named, public_data

STATIC = Path(__file__).parent / "static"
PACKAGE = "onnxruntime-web@1.30.0"
# Each file of the package's folder `dist`: its SHA-256, and its name in the export. `.mjs` is unknown to some servers.
FILES = {
    "ort.wasm.bundle.min.mjs": ("11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90", "ort.js"),
    "ort-wasm-simd-threaded.wasm": (
        "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
        "ort.wasm.gz",
    ),
}
LICENCE = Path(__file__).parent / "onnxruntime.LICENSE"
# A server tells the browser this in a header; a folder of files cannot.
POLICY = (
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' blob: data:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'"
)
MOST_SAMPLES = 40
SAMPLE_PIXELS = 100_000  # of all samples together: they are loaded with the page


def export_web(
    opened: OpenedWeights,
    out: Path,
    runtime: Path,
    *,
    dataset: DataSet | None = None,
    why_no_dataset: str = "no data set was given",
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Write the page, the int8 files and ONNX Runtime into the new folder `out`; return the content of card.json.

    Args:
        runtime: the npm package `PACKAGE`, as the file that `npm pack` writes or as a folder.
        dataset: int8 is calibrated and tested on it.
    """
    libraries = read_runtime(runtime)
    with new_folder(out) as folder:
        # Inside, so that the folder appears complete or not at all.
        card = export_model(
            opened.model,
            folder / "files",
            format="int8",
            dataset=dataset,
            why_no_dataset=why_no_dataset,
            parts=("encoder", "decoder"),
            coupling=True,
            say=say,
        )
        for file in list((folder / "files").iterdir()):
            file.rename(folder / file.name)
        (folder / "files").rmdir()
        say("Writing the page")
        network = OnnxNetwork(str(folder))
        drawn = draw_samples(opened, network)
        write_json(
            folder / "model.json",
            {
                **network.describe(),
                "encoder_parameters": sum(p.numel() for p in opened.model.encoder.parameters()),
                "pairs": None,
                **({"detection": network.card.detection} if network.card.detection else {}),
                "has_samples": bool(drawn),
                "version": capsnet.__version__,
            },
        )
        pictures = [{"class": name, "image": image.tolist()} for name, image in drawn]
        atomic_write(folder / "samples.json", json.dumps({"samples": pictures}).encode())
        shutil.copytree(STATIC, folder / "static")
        atomic_write(folder / "index.html", page().encode())
        (folder / "static" / "index.html").unlink()
        (folder / "runtime").mkdir()
        for name, content in {**libraries, "LICENSE": LICENCE.read_bytes()}.items():
            atomic_write(folder / "runtime" / name, content)
    return card


def draw_samples(opened: OpenedWeights, network: Network) -> list[tuple[str, np.ndarray]]:
    """Return test images and their classes; none of a user's own data, or of data that are not here or have changed."""
    if public_data(opened) is None:
        return []
    count = max(1, min(MOST_SAMPLES, SAMPLE_PIXELS // prod(network.picture_shape)))
    try:
        return named(gather(opened.dataset.test, network).draw(count, seed=0), network)
    except CapsNetError:
        return []


def page() -> str:
    """The server's page, told that the browser computes."""
    html = (STATIC / "index.html").read_text(encoding="utf-8")
    for old, new in (
        ("<html ", '<html data-backend="browser" '),
        ("<head>\n", f'<head>\n  <meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'),
    ):
        assert html.count(old) == 1
        html = html.replace(old, new)
    return html


def read_runtime(place: Path) -> dict[str, bytes]:
    """Return ONNX Runtime's files under the names that the page loads; the WebAssembly is packed to a quarter."""
    files = {}
    for name, (digest, target) in FILES.items():
        content = _read(place, name)
        if hashlib.sha256(content).hexdigest() != digest:
            raise CapsNetError(
                f"{name} in '{place}' is not that of {PACKAGE}, the version that the page is made for: "
                f"get it with npm pack {PACKAGE}."
            )
        files[target] = gzip.compress(content, 9, mtime=0) if target.endswith(".gz") else content
    return files


def _read(place: Path, name: str) -> bytes:
    """One of the package's files, from a folder of it or from the packed file."""
    for folder in (place / "dist", place):
        if (folder / name).is_file():
            return (folder / name).read_bytes()
    missing = f"There is no {name} in '{place}'; --runtime is the file that npm pack {PACKAGE} writes."
    if not place.is_file():
        raise CapsNetError(missing)
    try:
        with tarfile.open(place) as archive:
            member = archive.extractfile(f"package/dist/{name}")
            if member is not None:
                return member.read()
    except (tarfile.TarError, zlib.error, KeyError, OSError, EOFError, OverflowError, ValueError) as error:
        raise CapsNetError(missing) from error
    raise CapsNetError(missing)
