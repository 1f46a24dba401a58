"""Which part of the package may import which: arrows go one way, so that there are no cycles and models stay plain PyTorch.

Imports inside functions count too. Those for type checkers alone don't: they are never executed. The registries find their
entries by name (`importlib`), which is what lets a model be added without touching them.
"""

import ast
from pathlib import Path

import pytest

import capsnet

SOURCE = Path(capsnet.__path__[0])
# Each part imports from earlier lines only; parts of one line know nothing of each other.
LEVELS = (
    ("errors", "machine"),
    ("config", "devices", "files", "locks", "waiting", "wording"),
    ("data", "detection", "functional"),
    ("card", "layers"),
    ("registry",),
    ("models",),
    ("convert", "saving"),
    ("kernels", "opening"),
    ("evaluate",),
    ("train",),
    ("trials",),
    ("analysis", "estimator", "export"),
    ("predict", "report"),
    ("serve",),
    ("cli",),
    ("__main__",),
)
LEVEL = {part: number for number, level in enumerate(LEVELS) for part in level}


def part_of(module: str) -> str:
    """The package, or the module beside the packages, that `capsnet.part...` is in."""
    return module.split(".")[1]


def modules_of(tree: ast.AST) -> set[str]:
    """What a file imports of capsnet when it is executed."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            own = node.module == "capsnet"
            found |= {f"capsnet.{alias.name}" for alias in node.names} if own else {node.module or ""}
        found |= modules_of(node)
    return {name for name in found if name.startswith("capsnet.")}


def files() -> list[Path]:
    return [file for file in sorted(SOURCE.rglob("*.py")) if file != SOURCE / "__init__.py"]


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)


# The public names of `capsnet` itself, and the parts that they come from.
HOMES = {**capsnet._HOMES, **{name: f"capsnet.{name}" for name in capsnet._MODULES}}


@pytest.mark.parametrize("file", files(), ids=name_of)
def test_imports_go_one_way(file: Path) -> None:
    mine = part_of(name_of(file))
    for module in modules_of(ast.parse(file.read_text())):
        other = part_of(HOMES.get(module.removeprefix("capsnet."), module))
        if other in (mine, "__version__"):
            continue
        assert LEVEL[other] < LEVEL[mine], f"{name_of(file)} imports {module}"


def test_every_part_has_its_place() -> None:
    parts = {part_of(name_of(file)) for file in files()}
    assert parts - set(LEVEL) == set()


def test_the_check_sees_imports_inside_functions_but_none_for_type_checkers() -> None:
    text = (
        "if TYPE_CHECKING:\n    from capsnet.cli import a\nimport torch\n"
        "def f():\n    from capsnet.train.loop import b\n    import capsnet.data.mnist\nfrom capsnet import locks\n"
    )
    assert modules_of(ast.parse(text)) == {"capsnet.train.loop", "capsnet.data.mnist", "capsnet.locks"}
