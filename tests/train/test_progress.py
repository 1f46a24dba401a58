"""What a person sees of a long test."""

import io

import pytest
from rich.console import Console

from capsnet.train.prepare import Plan
from capsnet.train.progress import Bar, Lines


def test_lines_tell_how_far_a_test_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lines, "EVERY", 0.0)
    seen = io.StringIO()
    lines = Lines(Console(file=seen))
    lines.test_begins(1_000_000)
    lines.tested(250)
    lines.tested(250)
    assert seen.getvalue().splitlines() == ["tested 250 of 1,000,000", "tested 500 of 1,000,000"]


def test_the_bar_begins_anew_with_the_test() -> None:
    bar = Bar(Console(file=io.StringIO(), force_terminal=True))
    bar.start("title", Plan(epochs=1, steps_per_epoch=10, total_steps=10, images_per_epoch=640))
    try:
        bar.epoch_begins(1, 0)
        bar.step(640, 0.1, 100.0)
        bar.test_begins(1000)
        bar.tested(250)
        (task,) = bar.progress.tasks
        assert (task.completed, task.total, task.description) == (250, 1000, "testing")
    finally:
        bar.close()
