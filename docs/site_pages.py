"""Pages of the site that are made while it is built: the commands' own help, the Python API, the changelog, contributing.

A hook of mkdocs (mkdocs.yml names it). Nothing here imports torch: help comes from the parser, the API is read from the source.
"""

import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

import latex2mathml.converter
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "capsnet"
sys.path.insert(0, str(ROOT / "src"))

# Files beside docs/ that are pages of the site too.
BESIDE = ("CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md")
# Each page of the API: its title, what it says first, and its modules; a folder stands for all its modules.
API = {
    "capsnet": (
        "The front door",
        "`import capsnet` gives these names, and imports torch when one is first used.",
        ("registry.py", "opening.py", "saving.py", "card.py", "convert.py", "estimator.py", "errors.py"),
    ),
    "functional": (
        "capsnet.functional",
        "The maths: pure functions with shapes in their signatures. Each cites its equation.",
        ("functional",),
    ),
    "layers": (
        "capsnet.layers",
        "`nn.Module`s for networks of your own.",
        (
            "layers/primary.py",
            "layers/dense.py",
            "layers/capsule_head.py",
            "layers/conv_primary.py",
            "layers/conv_capsules.py",
            "layers/routing.py",
            "layers/decoders.py",
            "layers/mixed_norm.py",
        ),
    ),
    "models": ("capsnet.models", "One system per module, registered by name.", ("models",)),
    "data": (
        "capsnet.data",
        "Data sets in memory, splits, augmentation and pre-processing.",
        (
            "data/base.py",
            "data/registry.py",
            "data/splits.py",
            "data/preprocessing.py",
            "data/compose.py",
            "data/augmentation.py",
            "data/mixing.py",
            "data/folder.py",
            "data/patches.py",
        ),
    ),
    "train": (
        "capsnet.train",
        "`capsnet.train(...)` is the front door to training; recipes and settings are plain data.",
        ("train/__init__.py", "train/recipes.py", "train/callbacks.py", "config.py"),
    ),
    "evaluate": ("capsnet.evaluate", "Errors, ensembles, statistics and cost.", ("evaluate",)),
    "kernels": (
        "capsnet.kernels",
        "Optional accelerators: one switch, one explicit pass over a model.",
        ("kernels/__init__.py", "kernels/switch.py", "kernels/acceleration.py"),
    ),
}


def on_config(config: Any) -> Any:
    """List a page that mkdocs.yml does not name yet under "Use", so that none gets lost."""
    named = str(config.nav)
    use = next(section["Use"] for section in config.nav if "Use" in section)
    use += [page.name for page in sorted((ROOT / "docs").glob("*.md")) if f"'{page.name}'" not in named]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for name, text in generated().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(text: str, **_: Any) -> str:
    """Draw formulas as MathML, which browsers show without a script."""
    return re.sub(
        r"```math\n(.*?)```",
        lambda formula: latex2mathml.converter.convert(formula[1].strip(), display="block"),
        text,
        flags=re.DOTALL,
    )


def generated() -> dict[str, str]:
    """All generated pages by their file names."""
    pages = {f"api/{name}.md": api_page(*entry) for name, entry in API.items()}
    pages["commands.md"] = commands_page()
    for name in BESIDE:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        pages[name.lower()] = re.sub(rf"\]\(({'|'.join(BESIDE)})\)", lambda link: link[0].lower(), text)
    return pages


def api_page(title: str, opening: str, parts: tuple[str, ...]) -> str:
    """A page with a directive of mkdocstrings for each module."""
    modules: list[str] = []
    for part in parts:
        place = SOURCE / part
        files = [place] if place.is_file() else sorted(place.rglob("*.py"))
        assert files, part
        for file in files:
            name = ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
            if not name.endswith("__init__") or place.is_file():
                modules.append(name.removesuffix(".__init__"))
    return "\n\n".join([f"# {title}", opening, *(f"::: {module}" for module in modules)]) + "\n"


def commands_page() -> str:
    """The help of every command, in the order and the groups of `capsnet --help`."""
    from capsnet.cli.app import GROUPS, NESTED

    lines = [
        "# Reference of commands",
        "Generated from the help of the commands themselves. [The command line](command-line.md) has examples.",
        f"```text\n{help_of()}\n```",
    ]
    for group, commands in GROUPS.items():
        lines.append(f"## {group[0].upper()}{group[1:]}")
        for name in commands:
            lines += [f"### capsnet {name}", f"```text\n{help_of(name)}\n```"]
            if name in NESTED:
                for inner in commands[name]()._subcommands:
                    lines += [f"#### capsnet {name} {inner}", f"```text\n{help_of(name, inner)}\n```"]
    return "\n\n".join(lines) + "\n"


def help_of(*words: str) -> str:
    """What `capsnet WORDS --help` prints at 80 columns."""
    from capsnet.cli import main

    kept = {name: os.environ.get(name) for name in ("COLUMNS", "NO_COLOR", "TERM")}
    os.environ.update(COLUMNS="80", NO_COLOR="1", TERM="dumb")
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main([*words, "--help"])
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).strip("\n")
