"""Large catalogs: which of a million items, without an array of elements x items.

A fit or a score needs the log-probabilities of single items: outputs stay the factors that they are
products of, and are multiplied out, summed up and forgotten tile by tile.
"""
