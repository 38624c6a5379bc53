"""Public data sets by name."""

from collections.abc import Callable
from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from exfam.checks import check_choice
from exfam.reading.public_sets.instacart import instacart_table
from exfam.reading.public_sets.movielens import movielens_table
from exfam.reading.public_sets.published import PublicFiles, read_file

FILE = "temperature/us_city_temperature_october.csv"
SOURCE = PublicFiles(
    "us-temperature",
    how_to_get="This extract of the University of Dayton's Average Daily Temperature Archive has "
    "no address of its own: put us_city_temperature_october.csv (columns city,state,lat,lon,year,"
    "month,day,temperature_f) into FOLDER/temperature and set EXFAM_DATA=FOLDER. The archive as "
    "a whole is https://www.kaggle.com/datasets/sudalairajkumar/daily-temperature-of-major-cities.",
    md5={FILE: "89f637d48bcc800d6e087b965604313a"},
)


def temperature_table() -> pa.Table:
    """Daily mean temperatures: 44 cities x 31 days of October x 13 years, a row each.

    Columns `date` ("2007-10-01"), `site` (city and state: two Charlestons), `lat` and `lon` in
    degrees, `year`, `temperature_f` in degrees Fahrenheit.
    Raises DataError if the file cannot be had or is another.
    Source: "Exponential Family Attention", section 6.4.
    """
    rows = csv.read_csv(BytesIO(read_file(SOURCE, FILE)))
    year, month, day = (
        pc.utf8_lpad(rows[name].cast(pa.string()), 2, padding="0")
        for name in ("year", "month", "day")
    )
    return pa.table(
        {
            "date": pc.binary_join_element_wise(year, month, day, "-"),
            "site": pc.binary_join_element_wise(rows["city"], rows["state"], ", "),
            **{name: rows[name] for name in ("lat", "lon", "year", "temperature_f")},
        }
    )


def public(name: str) -> pa.Table:
    """The public data set of that name as an Arrow table, ready to be fitted.

    "movielens-100k": `user`, `movie`, `rating`, `time` and attributes of movies and users
    "instacart": `order`, `product`, `rank`, `split` and, where known, `aisle`, `department`
    "us-temperature": `date`, `site`, `lat`, `lon`, `year`, `temperature_f`

    Files are looked for in the folder that EXFAM_DATA names, then in the user's cache; what has an
    official address is downloaded into the cache. Every file's md5 is checked.
    Raises ExfamError for an unknown name; DataError, saying how to obtain the files, where they
    cannot be had or are not the published ones.
    """
    check_choice("name", name, PUBLIC_SETS)
    return PUBLIC_SETS[name]()


PUBLIC_SETS: dict[str, Callable[[], pa.Table]] = {
    "instacart": instacart_table,
    "movielens-100k": movielens_table,
    "us-temperature": temperature_table,
}
