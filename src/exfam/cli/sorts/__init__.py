"""What commands do with a model, by the sort of data that it reads: one `Sort` each.

A command looks its sort up once, by what the registry says that the estimator reads, and has no
branches on it. A new sort is a module here and a line in `SORTS`.
"""
