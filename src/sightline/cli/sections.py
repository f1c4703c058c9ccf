"""The help of `sightline`: its commands under headings, in the order they were registered."""

from typing import Any

from typer.core import TyperGroup

LOOK = "Look and measure"
TRAIN = "Train"
USE = "Use a model"
OTHERS = "Commands"

LONGEST = 200
"""Characters of the sentence that says what a command does: what is longer than a line is wrapped, not cut."""


class Sections(TyperGroup):
    """Lists commands by the `rich_help_panel` they were registered with."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a list for each heading."""
        commands = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        width = max(len(name) for name, _ in commands)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in commands:
            heading = getattr(command, "rich_help_panel", None)
            row = (name.ljust(width), command.get_short_help_str(LONGEST))
            sections.setdefault(heading if isinstance(heading, str) else OTHERS, []).append(row)
        for heading, rows in sections.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
