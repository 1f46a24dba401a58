"""The page's own rule gives the reasons that Python gives."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import capsnet.serve
from capsnet.detection.detector import fit_detector
from capsnet.detection.measures import Evidence

SOURCE = Path(capsnet.serve.__path__[0]) / "static" / "detect.js"
PROGRAM = """
import { readFileSync } from "node:fs";
import { whyUnlikely } from "./detect.mjs";
const { detection, cases } = JSON.parse(readFileSync("cases.json"));
console.log(JSON.stringify(cases.map((seen) => whyUnlikely(detection, false, seen))));
"""


def made(count: int, spread: float, seed: int) -> Evidence:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    scores = np.full((count, 3), 0.05)
    scores[np.arange(count), labels] = 1 - np.clip(rng.exponential(0.03 * spread, count), 0, 0.9)
    images = rng.random((count, 1, 4, 4))
    drawn = images + spread * rng.normal(0, 0.1, images.shape)
    return Evidence(scores, images, drawn, 4 * labels[:, None] + spread * rng.normal(size=(count, 6)))


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_gives_the_reasons_that_python_gives(tmp_path):
    detector, some = fit_detector(made(500, 1, 1), ""), made(60, 1.7, 2)
    whole = [
        {
            "scores": scores.tolist(),
            "image": image.ravel().tolist(),
            "drawn": drawn.ravel().tolist(),
            "parts": parts.tolist(),
        }
        for scores, image, drawn, parts in zip(*some[:4], strict=True)
    ]
    alone = [{"scores": case["scores"], "image": case["image"], "drawn": None} for case in whole]
    expected = detector.reasons(some) + detector.reasons(Evidence(some.scores))
    assert 10 < sum(reason is None for reason in expected) < 110
    shutil.copy(SOURCE, tmp_path / "detect.mjs")
    (tmp_path / "run.mjs").write_text(PROGRAM)
    cases = {"detection": detector.to_dict(), "cases": whole + alone}
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    done = subprocess.run(
        ["node", "run.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == expected
