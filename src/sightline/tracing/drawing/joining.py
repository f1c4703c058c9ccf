"""Many ES modules as one script without imports, in the order in which they need each other.

Each module becomes a function that returns what it exports, so that names inside it stay its own. It understands the
two forms that our modules use, `import { a, b } from "./c.js";` and `export function|class|const`, and no others.
"""

import re
from collections.abc import Mapping

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
OTHER = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def join(modules: Mapping[str, str], entry: str) -> str:
    """Return one script that does what the module `entry` does; `modules` are the sources by name."""
    return "".join(_function(name, modules[name]) for name in order(modules, entry))


def order(modules: Mapping[str, str], entry: str) -> list[str]:
    """Return the modules that `entry` needs, those they need first, and last itself."""
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in path:
            raise ValueError(f"modules need each other in a circle: {' > '.join((*path, name))}")
        if name not in done:
            for _, needed in IMPORT.findall(modules[name]):
                visit(needed, (*path, name))
            done.append(name)

    visit(entry, ())
    return done


def _function(name: str, source: str) -> str:
    """Return a module as a function that is called at once."""
    exports = EXPORT.findall(source)
    body = EXPORT.sub("", IMPORT.sub(r"const {\1} = $\2;\n", source))
    if (strange := OTHER.search(body)) is not None:
        raise ValueError(f"{name}.js: this form of import or export is not understood: {strange[0]}")
    return f"const ${name} = (() => {{\n{body}return {{ {', '.join(exports)} }};\n}})();\n"
