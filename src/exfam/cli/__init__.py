"""The command line, `exfam COMMAND`."""

from exfam.cli.commands import COMMANDS, Command, main

__all__ = ["COMMANDS", "Command", "main"]
