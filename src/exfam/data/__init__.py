"""Data in and out: batches, public data sets, simulators."""
