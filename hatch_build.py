"""Build the native engine's library into the wheel, if there is a C compiler; without one the wheel is pure Python.

The library holds its kernels for every instruction set, so that one wheel serves all processors of an architecture. It
is named by a hash of its source: an installed package only ever loads the library of its own source.
"""

import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path(__file__).parent / "src"


class NativeEngineHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the library, and the platform to the wheel's name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile into a temporary folder and have the library put beside its source."""
        if self.target_name != "wheel" or version == "editable":
            return  # an editable installation compiles when it needs the library, as sources change
        sys.path.insert(0, str(SOURCES))
        try:
            from sightline.engine.native import compiler
        finally:
            sys.path.remove(str(SOURCES))
        program = compiler.find_compiler()
        if program is None:
            self.app.display_warning("no C compiler was found: the wheel is without the native engine's library")
            return
        self.folder = tempfile.TemporaryDirectory()
        library = compiler.prebuilt_path(Path(self.folder.name))
        try:
            compiler.compile_library(program, library)
        except (compiler.NativeUnavailableError, OSError) as error:
            self.app.display_warning(f"the wheel is without the native engine's library: {error}")
            return
        build_data["force_include"][str(library)] = f"sightline/engine/native/{library.name}"
        build_data["pure_python"] = False
        # Any Python of this platform: the library knows nothing of Python.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what the wheel has taken."""
        if folder := getattr(self, "folder", None):
            folder.cleanup()
