"""Reading any picture stays within what its header says that it takes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from capsnet.data.pictures import read_header

SIZE = (3000, 2000)
KINDS = {
    "grey.png": ("L", {}),
    "colour.png": ("RGB", {}),
    "alpha.png": ("RGBA", {}),
    "alpha.webp": ("RGBA", {"lossless": True, "method": 0, "quality": 0}),
    "palette.gif": ("P", {}),
    "palette.png": ("P", {"transparency": 3}),
    "sixteen.png": ("I;16", {}),
    "thirty-two.tiff": ("I", {}),
    "float.tiff": ("F", {"compression": "tiff_lzw"}),
    "ink.tiff": ("CMYK", {"compression": "tiff_lzw"}),
    "photo.jpg": ("RGB", {}),
    "progressive.jpg": ("RGB", {"progressive": True, "subsampling": 0}),
}
MEASURE = """
import sys
from capsnet.data.pictures import read_picture
from capsnet.data.preprocessing import Preprocessing
read = lambda name, size: read_picture(name, Preprocessing(sys.argv[3]), (1 if sys.argv[3] == "digit" else 3, size, size))
read(sys.argv[1], 28)
def kilobytes(key):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(key))
open("/proc/self/clear_refs", "w").write("5")  # the peak starts again from here
before = kilobytes("VmRSS")
read(sys.argv[2], 64 if sys.argv[3] == "picture" else 28)
print((kilobytes("VmHWM") - before) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("kind", ["picture", "digit"])
def test_reading_takes_no_more_than_its_header_says(tmp_path: Path, name: str, kind: str) -> None:
    mode, options = KINDS[name]
    ramp = np.add.outer(np.arange(SIZE[1]), np.arange(SIZE[0])) % 251
    deep = {"I;16": np.uint16, "I": np.int32, "F": np.float32}
    picture = Image.fromarray(ramp.astype(deep.get(mode, np.uint8)))
    if mode not in deep:
        picture = picture.convert(mode)
    small, large = tmp_path / f"small-{name}", tmp_path / name
    picture.crop((0, 0, 40, 40)).save(small)
    picture.save(large, **options)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, small, large, kind], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert SIZE[0] * SIZE[1] / 100 < int(done.stdout) <= read_header(large).memory
