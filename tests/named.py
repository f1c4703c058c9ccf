"""Whether what a document names is there: read from the source, without importing it."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]


def defined_names(nodes: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return what a module or class body defines, by name."""
    found: dict[str, ast.stmt] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return found


def is_defined(file: Path, name: str) -> bool:
    """Say whether a file defines a name, which may be a class's (`Layer.residual`)."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for part in name.split("."):
        found = defined_names(body)
        if part not in found:
            return False
        body = getattr(found[part], "body", [])
    return True
