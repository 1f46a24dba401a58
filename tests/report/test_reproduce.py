"""The page: numbers are those of results/, cells without one name a command, and a browser is content with it."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from capsnet.cli import main
from capsnet.errors import CapsNetError
from capsnet.report.records import Results, find_results

CHROMIUM = Path("/usr/bin/chromium")
ROOT = Path(__file__).parents[2]


def run(model, seed, error, **more):
    return {
        "model": model,
        "dataset": "mnist",
        "recipe": "quick",
        "seed": seed,
        "train_error_percent": error / 2,
        "validation_error_percent": error * 2,
        "test_error_percent": error,
        "encoder_parameters": 1000,
        "images_seen": 30_000,
        "images_per_second": 500.0,
        "date": "2026-01-01T00:00:00+00:00",
        "config": {"model_options": {}, "dataset_options": {}, "limit": None},
        "curve": [
            {"epoch": n, "loss": 1 / n, "validation_error_percent": error * 3 / n} for n in range(1, 4)
        ],
        **more,
    }


def analysis():
    entry = {
        "samples": 11,
        "first_component_percent": 81.25,
        "by_class_percent": [80.0] * 10,
        "cumulative_percent": [80.0 + n for n in range(16)],
        "random_cumulative_percent": [25.0 + 4 * n for n in range(16)],
    }
    linear = {"r_squared": 0.71, "by_class": [0.7] * 10, "low": -5, "high": 5, "unit": "pixels"}
    return {
        "model": "efficient_capsnet",
        "dataset": "mnist",
        "images": 200,
        "all_test_images": False,
        "table": {"x": entry, "y": entry, "rotation": {**entry, "samples": 51}},
        "linear_images": 100,
        "linear": {"x": linear, "scale": {**linear, "r_squared": 0.33}},
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    records = {
        "mnist/efficient_capsnet-quick-s0": run("efficient_capsnet", 0, 0.5),
        "mnist/efficient_capsnet-quick-s1": run("efficient_capsnet", 1, 0.4),
        "mnist/cnn_small-no-reconstruction-quick-s0": run(
            "cnn_small",
            0,
            0.9,
            config={"model_options": {"decoder": False}, "dataset_options": {}, "limit": None},
        ),
        "mnist/limited": run(
            "base_capsnet", 0, 9.0, config={"model_options": {}, "dataset_options": {}, "limit": 500}
        ),
        "same_budget/routings-dynamic-s0": run(
            "efficient_capsnet",
            0,
            3.25,
            recipe="budget",
            group="routings",
            config={"model_options": {"routing": "dynamic"}, "dataset_options": {}, "limit": 10_000},
        ),
        "ensembles/mnist": {
            "dataset": "mnist",
            "selected_on": "validation",
            "members": [{}, {}],
            "ensemble": {"test_error_percent": 0.31},
        },
        "equivariance/efficient_capsnet": analysis(),
    }
    for name, record in records.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(record))
    return folder


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    """The page without network figures, which tests/analysis looks at; they take most of the time."""
    out = tmp_path_factory.mktemp("reproduced")
    from capsnet.report.reproduce import build_report

    return out, build_report(out, results=results, weights=[])


class Numbers(HTMLParser):
    """Every number of ours, with the cells around it."""

    def __init__(self):
        super().__init__()
        self.found, self.images, self.text, self.table, self.tables = [], [], "", "", {}

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag == "section":
            self.table = values["id"]
        if tag == "data":
            self.found.append({**values, "table": self.table, "text": ""})
        if tag == "img":
            self.images.append(values)

    def handle_data(self, data):
        self.tables[self.table] = self.tables.get(self.table, "") + data
        if self.found and self.lasttag == "data" and not self.found[-1]["text"]:
            self.found[-1]["text"] = data


@pytest.fixture(scope="module")
def numbers(page):
    parser = Numbers()
    parser.feed((page[0] / "index.html").read_text())
    return parser


def lookup(record, key):
    for part in key.split("."):
        record = record[part]
    return record


def test_every_number_in_the_page_is_the_mean_of_its_files(numbers, results):
    assert len(numbers.found) > 10
    for entry in numbers.found:
        records = [json.loads((results / source).read_text()) for source in entry["data-sources"].split()]
        values = [lookup(record, entry["data-key"]) for record in records]
        mean = sum(values) / len(values)
        assert float(entry["value"]) == pytest.approx(mean)
        shown = re.match(r"[\d.]+", entry["text"])[0]
        digits = len(shown.partition(".")[2])
        assert float(shown) == pytest.approx(mean, abs=0.5 * 10**-digits + 1e-9)


def test_seeds_are_averaged_and_runs_on_part_of_the_data_left_out(numbers):
    mnist = [entry for entry in numbers.found if entry["table"] == "mnist"]
    assert [entry["text"] for entry in mnist] == ["0.90", "0.45 ± 0.071"]
    assert "9.00" not in numbers.tables["mnist"]


def test_cells_without_a_result_say_the_command(numbers):
    assert "capsnet trials mnist --model base_capsnet --recipe paper --seeds 30" in numbers.tables["mnist"]
    assert "--no-reconstruction" in numbers.tables["mnist"]
    assert "capsnet trials multimnist" in numbers.tables["multimnist"]
    assert "capsnet analyze equivariance" in numbers.tables["equivariance"]


def test_reported_values_and_the_papers_own_retries_are_there(numbers):
    assert "0.25 ± 0.005; the paper's own retry 0.36 ± 0.04" in numbers.tables["mnist"]
    assert "1.8; the paper's own retry 4.4 ± 0.004" in numbers.tables["smallnorb"]
    assert "89.69 ± 0.005" in numbers.tables["equivariance"]


def test_what_does_not_match_is_said(numbers):
    assert "0.26 % reported, 0.45 % ours (quick, 2 seeds): 0.19 points above" in numbers.tables["mismatches"]
    assert "Not run yet on smallnorb" in numbers.tables["mismatches"]


def test_the_random_row_is_computed(numbers):
    row = numbers.tables["equivariance"]
    assert re.search(r"25\.[56]\d", row.split("CapsNet")[0].split("25.54")[1])


def test_the_cost_table_checks_the_claims(numbers):
    assert "161.8" in numbers.tables["cost"]
    if "6,804.4" in numbers.tables["cost"]:
        assert "Claim “85 % fewer operations than CapsNet”: 85" in numbers.tables["cost"]


def test_every_image_is_inside_the_page_and_has_a_text_alternative(numbers):
    assert len(numbers.images) >= 5
    for image in numbers.images:
        assert image["src"].startswith("data:image/")
        assert len(image["alt"]) > 20


def test_markdown_has_the_same_tables_and_its_figures_exist(page):
    out, report = page
    text = (out / "report.md").read_text()
    for table in report.tables:
        assert f"## {table.title}" in text
    for place in re.findall(r"!\[[^]]+\]\(([^)]+)\)", text):
        assert (out / place).is_file()
        if place.endswith(".png"):
            assert (out / place).with_suffix(".svg").is_file()
    assert "0.45 ± 0.071 (quick, 2 seeds)" in text


def test_results_are_found_or_their_absence_is_said(results, tmp_path, monkeypatch):
    assert find_results(results) == results
    with pytest.raises(CapsNetError, match="no folder"):
        find_results(tmp_path / "nothing")
    monkeypatch.chdir(tmp_path)
    assert find_results(None) == ROOT / "results"
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "bad.json").write_text("{")
    with pytest.raises(CapsNetError, match="not JSON"):
        Results(tmp_path)


def test_a_browser_asks_for_nothing_finds_no_error_and_tables_scroll_on_a_phone(page):
    api = pytest.importorskip("playwright.sync_api", reason="the browser test needs playwright")
    if not CHROMIUM.exists():
        pytest.skip("the browser test needs Debian's chromium")
    out, _ = page
    address = (out / "index.html").as_uri()
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 390, "height": 800})
        asked, said = [], []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.goto(address)
        assert [url for url in asked if not url.startswith("data:")] == [address]
        assert said == []
        assert tab.evaluate("[...document.images].every(i => i.complete && i.naturalWidth > 0 && i.alt)")
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), (
            "the page itself is too wide"
        )
        wide = "[...document.querySelectorAll('.scroll')].filter(d => d.scrollWidth > d.clientWidth).length"
        assert tab.evaluate(wide) > 0
        browser.close()


@pytest.mark.slow
def test_the_command_makes_the_whole_report_from_what_is_in_the_repository(tmp_path, capfd):
    main(["reproduce", "--results", str(ROOT / "results"), "--out", str(tmp_path), "--json"])
    told = json.loads(capfd.readouterr().out)
    assert told["seconds"] < 300
    assert {Path(f).name for f in told["figures"]} >= {"architecture.png", "perturb.gif", "calibration.png"}
