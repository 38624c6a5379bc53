"""Sites that training did not observe, for models that know the sites of training alone."""

import warnings
from typing import NoReturn

import numpy as np
from jaxtyping import Bool

from exfam.checks import ExfamError, ExfamWarning
from exfam.groups import Groups

REMEDY = "FieldGaussianProcess, FieldKriging and FieldEFA predict new places from those around them"


def refuse_places(estimator: str) -> NoReturn:
    """Raise ExfamError: the estimator of that name cannot predict at places of `at`.

    >>> refuse_places("FieldRidge")
    Traceback (most recent call last):
    ...
    exfam.checks.ExfamError: `at` must be left out for FieldRidge, which knows the sites of training
    alone: at other places it could give no more than what is normal there. FieldGaussianProcess,
    FieldKriging and FieldEFA predict new places from those around them; FieldClimatology gives what
    is normal.
    """
    raise ExfamError(
        f"`at` must be left out for {estimator}, which knows the sites of training alone: at other "
        f"places it could give no more than what is normal there. {REMEDY}; FieldClimatology gives "
        "what is normal."
    )


def warn_of_new_sites(groups: Groups, seen: Bool[np.ndarray, "slots"], *, estimator: str) -> None:
    """Warn (ExfamWarning) of rows whose sites training did not observe, with their number.

    `seen`: by code, whether training observed a site often enough to learn from
    """
    assert groups.item is not None
    rows = groups.elements()
    codes = groups.item[rows]
    new = rows[(codes < 0) | ~seen[codes]]
    if not len(new):
        return
    n_places = len(np.unique(groups.attributes["coordinates"][new], axis=0))
    warnings.warn(
        f"{len(new)} of {len(rows)} rows are at {n_places} places that training observed less than "
        f"twice. {estimator} knows the other sites alone: it predicts these rows by what is normal "
        f"there, and their values say nothing of other rows. {REMEDY}.",
        ExfamWarning,
        stacklevel=4,
    )
