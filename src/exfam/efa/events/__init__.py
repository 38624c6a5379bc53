"""Streams of events: when the next one comes, which item it has, and what value."""
