"""The command line, `exfam COMMAND`."""

from exfam.cli.commands import Command, commands, main

__all__ = ["Command", "commands", "main"]
