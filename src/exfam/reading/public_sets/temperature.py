"""October temperatures of 44 cities of the United States, 2007 to 2019."""

from io import BytesIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from exfam.reading.public_sets.files import Source, read_file

FILE = "temperature/us_city_temperature_october.csv"
SOURCE = Source(
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
            "lat": rows["lat"],
            "lon": rows["lon"],
            "year": rows["year"],
            "temperature_f": rows["temperature_f"],
        }
    )
