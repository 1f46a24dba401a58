"""What a person sees of a long test."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from capsnet.train.initial import Start
from capsnet.train.prepare import Plan
from capsnet.train.progress import Bar, Lines

RUN = SimpleNamespace(
    describe=lambda: "title",
    plan=Plan(epochs=1, steps_per_epoch=10, total_steps=10, images_per_epoch=640),
    config=SimpleNamespace(test=True, init=None),
    start=Start(),
    dataset=SimpleNamespace(test_images=1_000_000),
    now=SimpleNamespace(images=640),
    epoch=1,
    mean_loss=0.1,
    images_per_second=100.0,
)


def test_lines_tell_how_far_a_test_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lines, "EVERY", 0.0)
    seen = io.StringIO()
    lines = Lines(Console(file=seen))
    lines.on_train_end(RUN)
    lines.on_test_batch(RUN, 250)
    lines.on_test_batch(RUN, 250)
    assert seen.getvalue().splitlines()[1:] == ["tested 250 of 1,000,000", "tested 500 of 1,000,000"]


def test_the_bar_begins_anew_with_the_test() -> None:
    bar = Bar(Console(file=io.StringIO(), force_terminal=True))
    bar.on_train_start(RUN)
    try:
        bar.on_epoch_start(RUN)
        bar.on_step(RUN)
        (task,) = bar.progress.tasks
        assert (task.completed, task.total) == (640, 640)
        bar.on_train_end(RUN)
        bar.on_test_batch(RUN, 250)
        (task,) = bar.progress.tasks
        assert (task.completed, task.total, task.description) == (250, 1_000_000, "testing")
    finally:
        bar.teardown()
