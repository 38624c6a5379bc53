"""Fields under every encoding: positions are the places of the sites."""

import numpy as np
import pytest
import torch

from exfam.checks import ExfamError
from exfam.encodings import ENCODINGS, ALiBi, Rotary, Sinusoidal
from exfam.fields.networks.line import AlongLine
from fields.field_cases import FRAME, FULL, class_of, make

# Those that keep a number or a vector for each whole position.
TABLES = (
    "attenuated-probability",
    "attenuated-table",
    "attenuated-table-shared",
    "learned",
    "tupe",
)
EVERYWHERE = ("distance", "none")
SMALL = {"max_epochs": 1, "validation_fraction": 0.0}


@pytest.mark.parametrize("encoding", sorted(set(ENCODINGS) - set(TABLES)))
def test_places_of_one_coordinate_take_every_encoding_of_numbers(encoding, tmp_path):
    model = make("field-efa", coordinates="x", encoding=encoding, **SMALL).fit(FULL)
    mean = model.predict_dist(FRAME).mean
    assert np.isfinite(mean).all() and mean.std() > 0
    model.save(tmp_path / "model")
    loaded = class_of("field-efa").load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_dist(FRAME).mean, mean)


@pytest.mark.parametrize("encoding", TABLES)
def test_tables_of_positions_refuse_places(encoding):
    message = "`position` must be one integer an element for encoding='.*', got torch.float"
    with pytest.raises(ExfamError, match=message):
        make("field-efa", coordinates="x", encoding=encoding, **SMALL).fit(FULL)


@pytest.mark.parametrize("encoding", sorted(set(ENCODINGS) - {*EVERYWHERE, *TABLES}))
def test_places_of_two_coordinates_are_for_distance(encoding):
    message = "`position` must be one number an element for .*, got vectors of 2. Use encoding='d"
    with pytest.raises(ExfamError, match=message):
        make("field-efa", encoding=encoding, **SMALL).fit(FULL)


def test_an_unknown_encoding_is_refused():
    with pytest.raises(ExfamError, match="`encoding` must be one of 'alibi'.* got 'fourier'"):
        make("field-efa", encoding="fourier").fit(FULL)


def test_places_on_a_line_are_numbers_in_units():
    place = torch.tensor([0.0, 1.5, 6.0])[None, :, None]
    number = place[..., 0] / 3.0
    q = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    biased, turned, added = (
        AlongLine(encoding, unit=3.0) for encoding in (ALiBi(2), Rotary(4), Sinusoidal(4))
    )
    torch.testing.assert_close(biased.bias(q, place, place), ALiBi(2).bias(q, number, number))
    torch.testing.assert_close(turned.rotate(q, place), Rotary(4).rotate(q, number))
    torch.testing.assert_close(added.embed(place), Sinusoidal(4).embed(number))
    assert turned.rotates and added.embeds and not biased.rotates and biased.n_heads == 2
    with pytest.raises(ExfamError, match="`unit` must be a number > 0, got 0"):
        AlongLine(ALiBi(2), unit=0.0)


def test_places_that_groups_share_stay_one_row():
    shared = torch.tensor([0.0, 1.0])[None, :, None].expand(3, -1, -1)
    q = torch.zeros(3, 1, 2, 4)
    assert AlongLine(ALiBi(1), unit=1.0).bias(q, shared, shared).shape == (1, 1, 2, 2)
