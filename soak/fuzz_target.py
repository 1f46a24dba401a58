"""One target in one process: `python -m soak.fuzz_target TARGET CORPUS LOG SECONDS SEED`, for `soak.fuzz`."""

import json
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from random import Random

import atheris

INSTRUMENTED = [
    "capsnet.card", "capsnet.data", "capsnet.export.metadata", "capsnet.files", "capsnet.saving", "capsnet.serve", "PIL",
    "h11", "uvicorn", "starlette", "python_multipart", "numpy.lib", "zipfile", "gzip", "tarfile", "csv",
]  # fmt: skip

# Before anything imports them.
for module in ("zipfile", "gzip", "tarfile", "csv"):
    sys.modules.pop(module, None)
with atheris.instrument_imports(include=INSTRUMENTED, enable_loader_override=False):
    import gzip  # noqa: F401
    import tarfile  # noqa: F401
    import zipfile  # noqa: F401

    from capsnet.errors import CapsNetError
    from soak import fuzz, fuzz_http, readers

Spoil = Callable[[bytes, Random], bytes]


def make_target(name: str, folder: Path) -> tuple[list[bytes], Spoil, Callable[[bytes], object]]:
    """Return the first inputs, how they are spoilt, and what reads them."""
    if name == "http":
        return fuzz_http.make_target()
    (folder / "made").mkdir()
    reader = readers.readers(folder / "made", graphs=False)[name]
    path = folder / reader.place
    for other, content in reader.around.items():
        (folder / other).write_bytes(content)

    def read(content: bytes) -> object:
        path.write_bytes(content)
        return reader.read(path)

    return list(reader.seeds), reader.spoil, read


def main(name: str, corpus: Path, log: Path, seconds: int, seed: int) -> None:
    warnings.simplefilter("ignore")
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as place:
        seeds, spoil, read = make_target(name, Path(place))
        for content in seeds:
            (corpus / sha256(content).hexdigest()[:16]).write_bytes(content)
        seen: set[str] = set()

        def test(content: bytes) -> None:
            try:
                read(content)
            except CapsNetError:
                pass
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                known = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
                if known not in seen:
                    seen.add(known)
                    kept = corpus / "failures" / sha256(content).hexdigest()[:16]
                    kept.write_bytes(content)
                    with log.open("a") as file:
                        file.write(
                            json.dumps(f"{kept.name}: {known}: {str(error)[:200]}".replace(place, "")) + "\n"
                        )

        def mutate(content: bytes, most: int, number: int) -> bytes:
            random = Random(number)
            if random.random() < 0.5:
                return atheris.Mutate(content, most)
            try:
                return spoil(content, random)[:most]
            except Exception:  # it is no longer what the soak's own changes need
                return atheris.Mutate(content, most)

        options = [
            f"-max_total_time={seconds}",
            f"-timeout={fuzz.HANG}",
            f"-rss_limit_mb={fuzz.MEMORY_MB}",
            f"-max_len={max(4096, 2 * max(map(len, seeds)))}",
            f"-artifact_prefix={corpus / 'failures'}/",
            f"-seed={seed}",
            "-print_final_stats=1",
            str(corpus),
        ]
        atheris.Setup(["fuzz", *options], test, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
