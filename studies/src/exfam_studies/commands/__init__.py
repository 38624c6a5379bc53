"""Commands of the studies, which `exfam` finds through an entry point."""

from exfam.cli.commands import Command

COMMANDS = {
    "probe dependencies": Command(
        "which attention heads of an encoder find dependencies",
        "exfam_studies.commands.dependencies:DEPENDENCIES",
    ),
    "probe swaps": Command(
        "pairs of sentences whose words change places", "exfam_studies.commands.swaps:SWAPS"
    ),
    "reproduce": Command(
        "print a paper's table with our columns", "exfam_studies.commands.reproduce:REPRODUCE"
    ),
}
