"""The help of `sightline`: commands under headings, in the order of registration."""

from typing import Any

from typer.core import TyperGroup

INSPECT = "Inspect and evaluate"
TRAIN = "Train"
USE = "Use a model"
OTHERS = "Commands"

MAX_SUMMARY = 200
"""Maximum length of a command's summary in characters: long ones are wrapped, not cut."""


class Sections(TyperGroup):
    """Lists commands by the `rich_help_panel` they were registered with."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one list per heading."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        width = max(len(name) for name, _ in commands)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in commands:
            heading = getattr(command, "rich_help_panel", None)
            row = (name.ljust(width), command.get_short_help_str(MAX_SUMMARY))
            sections.setdefault(heading if isinstance(heading, str) else OTHERS, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
