"""`capsnet serve` with files that `capsnet export` wrote: torch's answers without torch."""

import re
import subprocess
import sys

import httpx
import numpy as np
import pytest

import capsnet
from capsnet.export.write import export_model
from capsnet.serve.engine import Engine, Poses, Question
from capsnet.serve.network import open_network

EVERYTHING = frozenset({"poses", "reconstructions", "input"})


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported files") / "mnist"
    export_model(capsnet.load("efficient_capsnet.mnist"), folder)
    return folder


@pytest.fixture(scope="module")
def digits():
    return capsnet.data.load_dataset("mnist").test.images[:20].numpy()


@pytest.mark.parametrize("part", ["", "encoder.onnx", "model.onnx"])
def test_exported_files_answer_as_torch_does(exported, trained, digits, part):
    engine = Engine(str(exported / part))
    question = Question(digits, EVERYTHING, 2)
    for ours, theirs in zip(engine.predict([question])[0], trained.predict([question])[0], strict=True):
        assert ours.class_ == theirs.class_
        assert list(ours.scores.values()) == pytest.approx(list(theirs.scores.values()), abs=1e-4)
        assert ours.input == theirs.input
        for drawn, other in zip(ours.reconstructions, theirs.reconstructions, strict=True):
            assert drawn.class_ == other.class_
            assert np.abs(np.subtract(drawn.image, other.image)).max() <= 1
    poses = Poses(np.ones((1, 10, 16), dtype=np.float32), np.array([3]))
    drawn, other = (np.array(e.reconstruct([poses])) for e in (engine, trained))
    assert np.abs(drawn - other).max() <= 1


def test_a_file_alone_has_no_decoder_and_a_decoder_alone_is_refused(exported, tmp_path):
    (tmp_path / "model.onnx").write_bytes((exported / "model.onnx").read_bytes())
    assert not open_network(str(tmp_path / "model.onnx")).has_decoder
    with pytest.raises(capsnet.CapsNetError, match="makes pictures from capsules"):
        open_network(str(exported / "decoder.onnx"))


def test_a_decoder_of_other_weights_is_refused(exported, tmp_path):
    export_model(capsnet.create_model("efficient_capsnet", (1, 28, 28), 10), tmp_path / "other")
    (tmp_path / "other" / "encoder.onnx").write_bytes((exported / "encoder.onnx").read_bytes())
    with pytest.raises(capsnet.CapsNetError, match="parts of different networks"):
        open_network(str(tmp_path / "other"))


def test_the_command_serves_an_export_without_importing_torch(exported, digits):
    code = (
        "import sys\nfrom capsnet.serve import run\nfrom capsnet.cli import main\n"
        "told = run.Server.startup\n"
        "async def startup(self, sockets=None):\n"
        "    assert 'torch' not in sys.modules, 'torch is imported'\n"
        "    await told(self, sockets)\n"
        "run.Server.startup = startup\n"
        "main(['serve', *sys.argv[1:]])"
    )
    command = [sys.executable, "-u", "-c", code, str(exported), "--port", "0", "--threads", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert address, process.communicate(timeout=20)
            with httpx.Client(base_url=address.group(), timeout=20, trust_env=False) as client:
                answer = client.post("/v1/predict", json={"images": digits.tolist()}).json()
                told = client.get("/v1/model").json()
                assert client.get("/v1/samples").status_code == 404
        finally:
            process.kill()
    assert [p["class"] for p in answer["predictions"][:3]] == ["7", "2", "1"]
    assert told["has_decoder"]
    assert not told["has_samples"]
    assert told["pairs"] is None
