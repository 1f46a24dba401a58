"""`key=value` words on the command line."""

import pytest

from capsnet.cli.options import parse_pairs
from capsnet.errors import CapsNetError


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("a=3", 3),
        ("a=0.5", 0.5),
        ("a=true", True),
        ("a=dynamic", "dynamic"),
        ("a=8,8,16", [8, 8, 16]),
        ("a=[[12, 12]]", [[12, 12]]),
        ("a=shift,rotate", "shift,rotate"),
        ("a=x=y", "x=y"),
    ],
)
def test_values_are_what_they_read_as(word, value):
    assert parse_pairs([word], "--model-options") == {"a": value}


@pytest.mark.parametrize("word", ["a", "=3"])
def test_other_words_are_refused(word):
    with pytest.raises(
        CapsNetError, match=f"--model-options takes words of the form key=value, not '{word}'"
    ):
        parse_pairs([word], "--model-options")
