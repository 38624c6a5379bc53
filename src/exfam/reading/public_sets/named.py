"""Public data sets by name."""

from collections.abc import Callable

import pyarrow as pa

from exfam.checks import check_choice
from exfam.reading.public_sets.instacart import instacart_table
from exfam.reading.public_sets.movielens import movielens_table
from exfam.reading.public_sets.temperature import temperature_table


def public(name: str) -> pa.Table:
    """The public data set of that name as an Arrow table, ready to be fitted.

    "movielens-100k": `user`, `movie`, `rating`, `time` and attributes of movies and users
    "instacart": `order`, `product`, `rank`, `split` and, where known, `aisle`, `department`
    "us-temperature": `date`, `site`, `lat`, `lon`, `year`, `temperature_f`

    Files are looked for in the folder that EXFAM_DATA names, then in the user's cache; what has an
    official address is downloaded into the cache. Every file's md5 is checked.
    Raises ExfamError for an unknown name; DataError, saying how to obtain the files, where they
    cannot be had or are not the published ones.

    >>> list(PUBLIC_SETS)
    ['instacart', 'movielens-100k', 'us-temperature']
    """
    check_choice("name", name, PUBLIC_SETS)
    return PUBLIC_SETS[name]()


PUBLIC_SETS: dict[str, Callable[[], pa.Table]] = {
    "instacart": instacart_table,
    "movielens-100k": movielens_table,
    "us-temperature": temperature_table,
}
