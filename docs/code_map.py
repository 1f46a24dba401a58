"""The map of the code, drawn from the imports of the source: what lives in each part of the package and what it uses."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "capsnet"


def levels() -> list[tuple[str, ...]]:
    """The parts in the order in which they may import: the test's own list, lowest first."""
    tree = ast.parse((ROOT / "tests" / "test_imports.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LEVELS":
            return list(ast.literal_eval(node.value))
    raise AssertionError("tests/test_imports.py has no LEVELS")


def homes() -> dict[str, str]:
    """Where the public names of `capsnet` come from."""
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            return dict(ast.literal_eval(node.value))
    raise AssertionError("capsnet has no _HOMES")


def files_of(part: str) -> list[Path]:
    """The files of a part: a module, or all modules of a package."""
    folder = SOURCE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [SOURCE / f"{part}.py"]


def uses(part: str, names: dict[str, str]) -> list[str]:
    """The other parts that a part imports when it is executed, also inside functions."""
    found = set()
    for file in files_of(part):
        for module in imports_of(ast.parse(file.read_text(encoding="utf-8"))):
            found.add(names.get(module.removeprefix("capsnet."), module).split(".")[1])
    return sorted(found - {part, "__version__"})


def imports_of(tree: ast.AST) -> set[str]:
    """What is imported of capsnet, without what is for type checkers alone."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            whole = node.module == "capsnet"
            found |= {f"capsnet.{alias.name}" for alias in node.names} if whole else {node.module or ""}
        found |= imports_of(node)
    return {name for name in found if name.startswith("capsnet.")}


def table() -> str:
    """One row per part, the lowest level first."""
    names = homes()
    lines = ["| level | part | imports |", "|---:|---|---|"]
    for number, level in enumerate(levels()):
        for part in level:
            kind = f"`{part}/`" if (SOURCE / part).is_dir() else f"`{part}.py`"
            used = ", ".join(f"`{name}`" for name in uses(part, names)) or "-"
            lines.append(f"| {number} | {kind} | {used} |")
    return "\n".join(lines)
