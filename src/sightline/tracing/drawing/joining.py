"""Join ES modules into one script without imports, dependencies first.

Each module becomes a function that returns its exports, so that its other names stay private. Only the two forms that
our modules use are supported: `import { a, b } from "./c.js";` and `export function|class|const`.
"""

import re
from collections.abc import Mapping

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def join(modules: Mapping[str, str], entry: str) -> str:
    """Return one script equivalent to the module `entry`; `modules` are the sources by name."""
    return "".join(_function(name, modules[name]) for name in order(modules, entry))


def order(modules: Mapping[str, str], entry: str) -> list[str]:
    """Return `entry` and the modules it imports, dependencies first."""
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"modules import each other in a cycle: {' > '.join((*path, name))}")
        if name not in done:
            for _, needed in IMPORT.findall(modules[name]):
                visit(needed, (*path, name))
            done.append(name)

    visit(entry, ())
    return done


def _function(name: str, source: str) -> str:
    """Return a module as an immediately invoked function."""
    exports = EXPORT.findall(source)
    body = EXPORT.sub("", IMPORT.sub(r"const {\1} = $\2;\n", source))
    if (unsupported := OTHER.search(body)) is not None:
        raise ValueError(f"{name}.js: this form of import or export is not supported: {unsupported[0]}")
    return f"const ${name} = (() => {{\n{body}return {{ {', '.join(exports)} }};\n}})();\n"
