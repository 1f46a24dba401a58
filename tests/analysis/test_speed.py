import json

import pytest

from capsnet.analysis.speed import measure
from capsnet.cli import main
from capsnet.errors import CapsNetError


def measured(capfd, *words):
    """The one row that `capsnet analyze cost` prints."""
    main(["analyze", "cost", *words, "--batch", "2", "--seconds", "0.1", "--threads", "1", "--json"])
    (row,) = json.loads(capfd.readouterr().out)["models"]
    return row


def test_cost_is_measured_beside_what_the_paper_reports(capfd):
    row = measured(capfd, "efficient_capsnet")
    assert row["encoder_parameters"] == 161_824
    assert row["reported"] == {"parameters_k": 161, "operations_g": 0.06}
    assert row["training_images_per_second"] > 1
    assert row["milliseconds_per_image"] > 0
    assert row["training_memory_mib"] > 0


def test_a_measurement_that_fails_says_which():
    with pytest.raises(CapsNetError, match="Measuring 'efficient_capsnet' at batch 0 failed"):
        measure("efficient_capsnet", 0, 0.1, 1)


def test_models_are_sized_for_a_data_set(capfd):
    assert measured(capfd, "cnn_small", "--data", "smallnorb")["encoder_parameters"] == 198_613
