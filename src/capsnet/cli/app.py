"""All commands by name, in the groups of `capsnet --help`."""

import inspect
from collections.abc import Callable
from typing import Any

from tyro.extras import SubcommandApp

import capsnet
from capsnet.cli import (
    analyze,
    compare,
    console,
    convert,
    data,
    ensemble,
    evaluate,
    export,
    models,
    predict,
    report,
    reproduce,
    serve,
    train,
    trials,
)

GROUPS: dict[str, dict[str, Callable[..., Any]]] = {
    "start here": {"models": models.models, "data": data.build_app, "predict": predict.predict},
    "train": {"train": train.train, "trials": trials.trials, "ensemble": ensemble.ensemble},
    "look inside": {
        "eval": evaluate.evaluate,
        "report": report.report,
        "compare": compare.compare,
        "analyze": analyze.build_app,
    },
    "ship": {"export": export.export, "serve": serve.serve},
    "reproduce": {"reproduce": reproduce.reproduce, "convert": convert.convert},
}
# What the commands that only hold others say of themselves, and the builders of what they hold.
NESTED = {
    "data": "List, fetch, check and look at data sets.",
    "analyze": "Measure what networks cost, and show what their capsules encode.",
}
HELP = ("-h", "--help")


def build_app() -> SubcommandApp:
    """Return the parser of the whole command line."""
    app = SubcommandApp()
    for commands in GROUPS.values():
        for name, command in commands.items():
            if name in NESTED:
                app.command(command(), name=name, help=NESTED[name])
            else:
                app.command(name=name)(command)
    return app


def show_version() -> None:
    """Print the version."""
    console.out.print(f"capsnet {capsnet.__version__}", highlight=False)


def overview() -> str:
    """Return the help of the command line itself: every command with one line, group by group."""
    lines = [
        "usage: capsnet [--help] [--version] COMMAND ...",
        "",
        "Capsule networks: train, evaluate, use.",
    ]
    for group, commands in GROUPS.items():
        lines += ["", group]
        for name, command in commands.items():
            summary = NESTED.get(name) or (inspect.getdoc(command) or "").splitlines()[0]
            lines.append(f"  {name:<10} {summary}")
    return "\n".join(
        [
            *lines,
            "",
            "capsnet COMMAND --help explains a command; --json prints JSON for programs.",
            "New here? `capsnet serve --open` lets you draw digits, and",
            "`capsnet train mnist --epochs 1 --limit 2000` trains in seconds.",
            "`capsnet --tyro-print-completion bash` prints completion; also zsh, fish.",
        ]
    )
