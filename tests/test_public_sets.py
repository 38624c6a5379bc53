"""Public data sets: downloaded once, checked, kept in the user's cache."""

import gzip
import hashlib
import http.server
import io
import threading
import zipfile
from functools import partial

import pyarrow as pa
import pytest

from exfam.checks import DataError, ExfamError
from exfam.reading.public_sets.movielens import SOURCE
from exfam.reading.public_sets.named import PUBLIC_SETS, public
from exfam.reading.public_sets.published import Archive, PublicFiles, cache_folder, read_file
from exfam_studies.efa.movielens_splits import movielens_items

FILE = "toy/letters.csv"
LETTERS = b"letter\na\nb\n"
MD5 = hashlib.md5(LETTERS).hexdigest()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and keeps count of requests."""

    requests: list[str] = []

    def log_request(self, code="-", size="-"):
        self.requests.append(self.path)

    def log_message(self, *_):
        pass


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty user cache, no other folder of data, and no proxy before this machine."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("EXFAM_DATA", raising=False)
    return tmp_path / "cache" / "exfam"


def list_toy(monkeypatch, address):
    """Lists a set "toy" whose archive has the given address."""
    archive = Archive(f"{address}/letters.zip", {FILE: "letters/letters.csv"})
    source = PublicFiles("toy", how_to_get="Write them.", md5={FILE: MD5}, archive=archive)

    def table():
        lines = read_file(source, FILE).decode().split()
        return pa.table({lines[0]: lines[1:]})

    monkeypatch.setitem(PUBLIC_SETS, "toy", table)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder whose files a server of this machine offers, where the set "toy" is listed."""
    monkeypatch.setattr(Quiet, "requests", [])
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        list_toy(monkeypatch, f"http://127.0.0.1:{server.server_port}")
        yield folder
        server.shutdown()
        thread.join()


def zipped(name="letters/letters.csv", content=LETTERS):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def test_a_set_is_downloaded_once_and_kept_in_the_cache(cache, served, tmp_path, monkeypatch):
    match = r"`toy` must be downloaded once .* got no file \(status 404\)"
    with pytest.raises(DataError, match=match):
        public("toy")
    (served / "letters.zip").write_bytes(zipped())
    assert public("toy").to_pydict() == {"letter": ["a", "b"]}
    assert (cache / FILE).read_bytes() == LETTERS
    # What the folder of data lacks comes from elsewhere.
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path))
    assert public("toy")["letter"].to_pylist() == ["a", "b"]
    assert Quiet.requests == ["/letters.zip"] * 2


@pytest.mark.parametrize("packed", [False, True])
def test_the_folder_of_data_comes_before_the_cache(cache, tmp_path, monkeypatch, packed):
    list_toy(monkeypatch, "http://127.0.0.1:1")  # where nobody listens
    with pytest.raises(
        DataError, match="`toy` must be downloaded once from http.* got no"
    ) as error:
        public("toy")
    assert str(error.value).endswith("online, or get it by hand: Write them.")
    assert error.value.__cause__ is None and error.value.__suppress_context__
    assert not cache.exists()
    for folder, content in ((cache, b"other"), (tmp_path / "data", LETTERS)):
        path = folder / FILE
        path.parent.mkdir(parents=True)
        if packed:
            path = path.with_name(f"{path.name}.gz")
            content = gzip.compress(content)
        path.write_bytes(content)
    with pytest.raises(DataError, match="md5"):
        public("toy")
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path / "data"))
    assert public("toy").num_rows == 2


NO_ZIP = "`toy` must come as a zip archive of letters/letters.csv"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>Sign in</html>", NO_ZIP),
        (zipped(name="letters.csv"), NO_ZIP),
        (zipped(content=b"letter\nc\n"), f"`{FILE}` must have md5 {MD5} when unpacked, got .* in"),
    ],
)
def test_a_damaged_or_foreign_archive_is_not_kept(cache, served, content, message):
    (served / "letters.zip").write_bytes(content)
    with pytest.raises(DataError, match=message):
        public("toy")
    assert not cache.exists()


def test_a_damaged_or_foreign_file_is_named(cache, monkeypatch, tmp_path):
    assert set(SOURCE.archive.members) == set(SOURCE.md5) and cache_folder() == cache
    path = cache / "movielens" / "u.data.gz"
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(b"1\t1\t1\t1\n" * 99)[:-9])
    with pytest.raises(DataError, match=r"`u.data.gz` must be a whole gzip file, got a damaged"):
        movielens_items()
    path.write_bytes(gzip.compress(b"1\t1\t1\t1\n"))
    with pytest.raises(DataError, match="`movielens/u.data` must have md5 6e47.* got .* Unpack ht"):
        public("movielens-100k")
    monkeypatch.setenv("EXFAM_DATA", str(tmp_path / "gone"))
    with pytest.raises(DataError, match="`EXFAM_DATA` must name the folder of public data sets, g"):
        movielens_items()
    with pytest.raises(ExfamError, match="`name` must be one of 'instacart', 'movielens-100k', 'u"):
        public("text8")


def test_temperatures_are_whole(data_folder):
    table = public("us-temperature")
    assert table.num_rows == 44 * 31 * 13
    frame = table.to_pandas()
    assert frame.groupby("date").site.nunique().tolist() == [44] * (31 * 13)
    assert frame.groupby("site")[["lat", "lon"]].nunique().eq(1).all(axis=None)
    assert {"Charleston, South Carolina", "Charleston, West Virginia"} <= set(frame.site)
    assert (frame.date.str[:4].astype(int) == frame.year).all() and frame.date.min() == "2007-10-01"
    assert frame.temperature_f.between(0, 110).all()
