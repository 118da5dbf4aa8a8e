"""The checkout as the tests here look at it: files, modules and what they import."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCES = {"lazyd": ROOT / "daemon" / "lazyd", "lazyctl": ROOT / "cli" / "lazyctl"}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of ours: ``lazyd.core.spec`` and its file."""
    for package, folder in SOURCES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def imports(module: str, path: Path, *, at_start_only: bool = False) -> Iterator[str]:
    """Full names of what a module imports, relative ones resolved.

    `at_start_only` leaves out what is inside functions, and what only a type checker reads.
    """
    tree = ast.parse(path.read_text(), path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _at_start(tree) if at_start_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            # What is named may itself be a module.
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in KNOWN)


def _at_start(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _at_start(node)


def is_standard(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names


KNOWN = frozenset(name for name, _ in modules())
