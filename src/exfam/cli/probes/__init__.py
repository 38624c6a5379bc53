"""Probes of encoders on the command line."""
