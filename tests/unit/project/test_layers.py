"""Who may import whom: arrows go one way, and what must stay light stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from .tree import SOURCES, imports, is_standard, is_within, modules

OURS = tuple(SOURCES)

# Package -> what of ours it may import besides itself and the version that `lazyd` tells. What is not named
# here is not restricted.
ALLOWED = {
    "lazyd.core": ("lazyd.digest",),
    "lazyd.digest": (),
    "lazyd.durable": (),
    "lazyd.errors": (),
    "lazyd.places": (),
    "lazyd.urls": ("lazyd.digest",),
    "lazyd.fetch": (
        "lazyd.core.wording",
        "lazyd.durable",
        "lazyd.places",
        "lazyd.runtimes",
        "lazyd.urls",
        "lazyd.wire",
    ),
    "lazyd.proxy": ("lazyd.client", "lazyd.errors", "lazyd.wire", "lazyd.worker.link", "lazyd.worker.process"),
    "lazyd.wire": ("lazyd.errors",),
    "lazyd.client": ("lazyd.errors", "lazyd.places", "lazyd.wire"),
    "lazyd.config": (
        "lazyd.core",
        "lazyd.durable",
        "lazyd.places",
        "lazyd.runtimes",
        "lazyd.urls",
    ),
    "lazyd.devices": ("lazyd.core",),
    "lazyd.replay": ("lazyd.core", "lazyd.manager.readiness.schedules"),
    "lazyd.varlink": ("lazyd.errors", "lazyd.wire"),
    "lazyd.runtimes": ("lazyd.wire",),
    "lazyd.worker": ("lazyd.client", "lazyd.errors", "lazyd.runtimes", "lazyd.wire"),
    "lazyctl": (
        "lazyd.client",
        "lazyd.config",
        "lazyd.core.spec",
        "lazyd.errors",
        "lazyd.places",
        "lazyd.replay",
        "lazyd.wire",
    ),
}

# What another interpreter imports: Python 3.9 and later, and nothing that is not in its standard library.
OTHER_INTERPRETERS = (
    "lazyd.errors",
    "lazyd.places",
    "lazyd.wire",
    "lazyd.client",
    "lazyd.worker",
    "lazyd.runtimes",
)
MODEL_LIBRARIES = ("llama_cpp", "numpy", "onnxruntime", "paddle", "torch")


IMPORT_EACH = """
import importlib, sys, lazyd.core.world
facts = set(sys.modules)
for first in sys.argv[1:]:
    for rule in [name for name in sys.modules if name.startswith("lazyd.core.") and name not in facts]:
        del sys.modules[rule]
        delattr(lazyd.core, rule.rpartition(".")[2])
    importlib.import_module(first)
    print(first)
"""


def far_half(module: str) -> bool:
    return module == "lazyd" or any(is_within(module, package) for package in OTHER_INTERPRETERS)


@pytest.mark.parametrize("package", ALLOWED)
def test_arrows_point_one_way(package: str) -> None:
    mine = [(module, path) for module, path in modules() if is_within(module, package)]
    assert mine, f"{package} is gone: take it out of the table"
    wrong = [
        f"{module} imports {imported}"
        for module, path in mine
        for imported in imports(module, path)
        if imported.partition(".")[0] in OURS
        and imported != "lazyd"
        and not any(is_within(imported, other) for other in (package, *ALLOWED[package]))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_core_does_no_input_or_output() -> None:
    outside = {
        "asyncio",
        "io",
        "os",
        "pathlib",
        "random",
        "selectors",
        "signal",
        "socket",
        "subprocess",
        "threading",
        "time",
    }
    wrong = [
        f"{module} imports {imported}"
        for module, path in modules()
        if is_within(module, "lazyd.core")
        for imported in imports(module, path)
        if imported.partition(".")[0] in outside
    ]
    assert not wrong, "\n".join(wrong)


def test_the_core_can_be_imported_from_whichever_module() -> None:
    """Its rules call each other both ways, and what an import takes out of a module must be there by then."""
    core = [module for module, _ in modules() if is_within(module, "lazyd.core")]
    ran = subprocess.run([sys.executable, "-c", IMPORT_EACH, *core], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == core, ran.stderr


def test_what_another_interpreter_imports_is_standard_library_until_a_model_loads() -> None:
    at_start = {m: list(imports(m, path, at_start_only=True)) for m, path in modules() if far_half(m)}
    needs_more = {m for m, names in at_start.items() if not all(is_standard(name) or far_half(name) for name in names)}
    # Parts of a runtime may need its library. Nothing else may need them before it loads a model.
    assert all(is_within(module, "lazyd.runtimes") for module in needs_more), needs_more
    wrong = [
        f"{module} imports {name}"
        for module, names in at_start.items()
        if module not in needs_more
        for name in names
        if name in needs_more
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("module", [module for module, _ in modules() if far_half(module)])
def test_what_another_interpreter_imports_is_python_3_9(module: str) -> None:
    path = dict(modules())[module]
    tree = ast.parse(path.read_text(), path, feature_version=(3, 9))
    # `feature_version` lets two things of 3.10 pass: `match`, and `X | Y` in annotations that are evaluated.
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Match)]
    if not any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body):
        assert not [text for text in annotations(tree) if "|" in text]


def annotations(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if (annotation := getattr(node, name, None)) is not None:
                yield ast.unparse(annotation)


def test_no_model_library_outside_of_runtimes() -> None:
    allowed = ("lazyd.runtimes", "lazyd.wire", "lazyd.worker", "lazyd.client")
    wrong = [
        f"{module} imports {imported}"
        for module, path in modules()
        if not any(is_within(module, package) for package in allowed)
        for imported in imports(module, path)
        if imported.partition(".")[0] in MODEL_LIBRARIES
    ]
    assert not wrong, "\n".join(wrong)


def test_every_package_says_what_lives_there() -> None:
    for module, path in modules():
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text())), f"{module} has no docstring"


def test_nobody_but_the_fetcher_has_a_network() -> None:
    networks = ("aiohttp", "botocore", "fsspec", "gcsfs", "ossfs", "s3fs")
    wrong = [
        f"{module} imports {imported}"
        for module, path in modules()
        if not is_within(module, "lazyd.fetch")
        for imported in imports(module, path)
        if imported.partition(".")[0] in networks
    ]
    assert not wrong, "\n".join(wrong)
