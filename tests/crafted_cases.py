"""Documents that no exfam has written: one field changed, the checksum right."""

import copy
import hashlib
import json

REMOVED = object()


def craft(file, document):
    """Write a document with the checksum that it should have."""
    document = {key: value for key, value in document.items() if key != "checksum"}
    document["checksum"] = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    file.write_text(json.dumps(document))


def changed(document, path, value):
    """The document with one field replaced, or removed."""
    document = copy.deepcopy(document)
    *above, last = path
    node = document
    for key in above:
        node = node[key]
    if value is REMOVED:
        del node[last]
    else:
        node[last] = value
    return document


def paths(node, above=()):
    """Where fields are; of a list, the first four entries."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node[:4])
    for key, value in pairs:
        yield (*above, key)
        if isinstance(value, dict | list):
            yield from paths(value, (*above, key))


def mutations(document, n, draw):
    """The document with one field or another removed or replaced, `n` times."""
    odd = [None, True, -1, 0, 3, 10**12, 2**70, 0.5, 1e300, "", "x", "../outside.npy", "O", "\0"]
    odd += [[], [2], [[1]], {}, {"a": 1}, REMOVED, REMOVED, REMOVED]
    for _ in range(n):
        yield changed(document, draw.choice(list(paths(document))), draw.choice(odd))
