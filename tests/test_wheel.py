"""The wheel, installed in an environment without the checkout, works from another folder."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def capsnet_command(tmp_path_factory):
    """Builds the wheel and installs it; its dependencies are this environment's, without the checkout itself."""
    place = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = place.glob("capsnet-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        networks = [file for file in packed.infolist() if file.filename.endswith(".safetensors")]
    assert all(file.filename.startswith("capsnet/weights/") for file in networks)
    assert sum(file.file_size for file in networks) < 20e6
    venv.create(place / "env", with_pip=False, symlinks=True)
    python = place / "env" / "bin" / "python"
    # Folders named in a .pth join the path, but the .pth files in them, the checkout's own among them, are not read.
    packages = sysconfig.get_path("purelib")
    (site,) = (place / "env" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(packages + "\n")
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run(install, check=True, capture_output=True)

    def call(*words: str) -> str:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        command = [str(place / "env" / "bin" / "capsnet"), *words]
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    call.folder = place
    return call


def test_the_wheel_trains_and_evaluates(capsnet_command):
    result = json.loads(
        capsnet_command("train", "mnist", "--limit", "500", "--epochs", "1", "--out", "run", "--json")
    )
    assert result["commit"] is None
    assert result["test_images"] == 10_000
    scores = json.loads(capsnet_command("eval", "run", "--json"))
    assert scores["error_percent"] == result["test_error_percent"]


def test_the_wheel_predicts_with_its_own_weights(capsnet_command):
    Image.new("L", (40, 40), 255).save(capsnet_command.folder / "blank.png")
    (prediction,) = json.loads(capsnet_command("predict", "efficient_capsnet.mnist", "blank.png", "--json"))
    assert prediction["likely"] is False
