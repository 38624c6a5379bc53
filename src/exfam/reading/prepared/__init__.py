"""Prepared folders: groups as files that are mapped into memory instead of being read."""

from exfam.reading.prepared.folder import (
    is_prepared,
    open_prepared,
    prepare,
    prepared_columns,
    prepared_facts,
)

__all__ = ["is_prepared", "open_prepared", "prepare", "prepared_columns", "prepared_facts"]
