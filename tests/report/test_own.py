"""The page on one's own runs: made from real short trainings, its numbers are the runs' own."""

import json
import re

import pytest

from capsnet.cli import main
from capsnet.report.own import distinct_labels


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("some runs")
    for seed in (0, 1):
        words = (
            f"train mnist --model cnn_small --limit 300 --epochs 2 --seed {seed} --threads 1 --json".split()
        )
        main([*words, "--out", str(folder / f"s{seed}")])
    return folder


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("page")
    main(["report", str(runs / "s0"), str(runs / "s1"), "--out", str(out), "--json"])
    return out


def test_it_shows_each_runs_own_test_error(runs, page):
    text = (page / "report.md").read_text()
    for seed in (0, 1):
        result = json.loads((runs / f"s{seed}" / "result.json").read_text())
        assert f"| s{seed} | cnn_small | mnist |" in text
        assert f"{result['test_error_percent']:.2f} %" in text


def test_the_recalls_add_up_to_the_right_images(runs, page):
    section = (page / "report.md").read_text().split("## s0: classes")[1].split("\n## ")[0]
    rows = [row.split(" | ") for row in section.splitlines() if re.match(r"\| \d ", row)]
    right = sum(float(row[2].rstrip(" %")) / 100 * int(row[4].replace(",", "")) for row in rows)
    result = json.loads((runs / "s0" / "result.json").read_text())
    assert len(rows) == 10
    assert right == pytest.approx(10_000 - result["test_errors"], abs=1)


def test_runs_are_compared_image_by_image_and_every_figure_is_inside_the_page(page):
    text = (page / "index.html").read_text()
    assert 'id="comparison"' in text
    for name in ("curves", "confusion1", "mistakes1", "calibration1", "reconstruct1", "confusion2"):
        assert re.search(
            rf'id="figure-{name}".*?<img src="data:image/png;base64,[^"]+" alt="[^"]+"', text, re.S
        )
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)


def test_without_runs_it_points_to_the_papers_tables(capfd):
    with pytest.raises(SystemExit) as stop:
        main(["report"])
    assert stop.value.code == 2
    assert "capsnet reproduce" in capfd.readouterr().err.replace("\n", " ")


def test_labels_are_as_short_as_keeps_them_apart():
    assert distinct_labels(["runs/a/s0", "runs/b/s0"]) == ["a/s0", "b/s0"]
    assert distinct_labels(["runs/a/s0", "runs/a/s1"]) == ["s0", "s1"]
