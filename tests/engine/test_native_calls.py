"""Which native calls the source may make: the C functions alone, positions that are never moved,
and no sampler but ours.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "engine" / "bench"
"""Compares with what llama.cpp does by itself."""
SOURCES = sorted(path for name in ("engine", "models") for path in (ROOT / name).rglob("*.py"))
MOVES = (
    "llama_memory_seq_add",
    "llama_memory_seq_div",
    "llama_kv_self_seq_",
    "llama_kv_cache_seq_",
)
SAMPLERS = ("llama_sampler_", "llama_grammar_", "llama_sample_", "LlamaGrammar", "LlamaSampler")


def foreign_imports(tree: ast.AST) -> Iterator[str]:
    """Every import of the binding but that of its C functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.partition(".")[0] == "llama_cpp")
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [alias.name for alias in node.names]
            ours = (node.module, names) == ("llama_cpp", ["llama_cpp"])
            if node.module.partition(".")[0] == "llama_cpp" and not ours:
                yield f"from {node.module} import {', '.join(names)}"


def names(tree: ast.AST) -> Iterator[str]:
    """Every name, attribute and text that is one word: what can reach a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def forbidden(tree: ast.AST, in_bench: bool) -> list[str]:
    begins = () if in_bench else MOVES + SAMPLERS
    found = [name for name in names(tree) if name == "Llama" or name.startswith(begins)]
    return [*foreign_imports(tree), *found]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_allowed_native_calls_are_made(path: Path) -> None:
    tree = ast.parse(path.read_bytes(), str(path))
    assert forbidden(tree, path.is_relative_to(BENCH)) == []


@pytest.mark.parametrize(
    "line",
    [
        "import llama_cpp",
        "import llama_cpp.llama_cpp as c",
        "from llama_cpp import Llama",
        "from llama_cpp import llama_cpp, Llama",
        "from llama_cpp.llama_cpp import llama_decode",
        "model = binding.Llama('x')",
        "llama_cpp.llama_memory_seq_add(memory, 0, 1, 2, 3)",
        "getattr(llama_cpp, 'llama_memory_seq_div')(memory)",
        "chain = llama_cpp.llama_sampler_init_greedy()",
        "llama_cpp.llama_sampler_init_grammar(vocab, text, root)",
    ],
)
def test_the_guard_sees_what_it_forbids(line: str) -> None:
    assert forbidden(ast.parse(line), in_bench=False)


def test_the_guard_lets_the_c_functions_through() -> None:
    text = "from llama_cpp import llama_cpp\nllama_cpp.llama_memory_seq_rm(memory, 0, 1, -1)"
    assert forbidden(ast.parse(text), in_bench=False) == []
    shift = ast.parse("llama_cpp.llama_memory_seq_add(memory, 0, 1, 2, 3)")
    assert forbidden(shift, in_bench=True) == []
