"""Numbers in sentences."""

import pytest

from capsnet.wording import counted


@pytest.mark.parametrize(
    ("n", "words"), [(0, "0 images"), (1, "1 image"), (2, "2 images"), (60_000, "60,000 images")]
)
def test_one_thing_is_singular(n: int, words: str) -> None:
    assert counted(n, "image") == words
