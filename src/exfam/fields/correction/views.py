"""What attention is trained on: rows of a base's columns, some of whose sites are targets."""

from typing import Protocol, runtime_checkable

from jaxtyping import Bool
from torch import Tensor

from exfam.fields.base.columns import MapColumns
from exfam.fields.base.conditionals import NearColumns, OfBlocks, OfMatrix
from exfam.fields.base.courses import Courses
from exfam.fields.base.fit import FieldBase
from exfam.fields.base.folds import Maps, candidates
from exfam.fields.base.limits import Evidence
from exfam.fields.base.trials import Settings
from exfam.fields.local.local_fit import LocalBase
from exfam.fields.local.targets import SomeTargets

# Sites of many that attention is trained on.
MOST_TARGETS = 300


@runtime_checkable
class BaseView(Protocol):
    """A base, and itself fitted to fewer maps.

    `columns`: of the rows, the targets' own ones first; `prior`: near each target, of the kernel
    """

    maps: Maps
    settings: Settings
    courses: Courses
    columns: MapColumns
    prior: NearColumns

    def evidence(self, courses: Courses) -> Evidence:
        """Rows of anomalies as others are predicted from them."""

    def without(self, courses: Courses, left: Bool[Tensor, "times"]) -> NearColumns:
        """Near each target, of a base fitted to the maps that are left."""


class WholeView:
    """A base that holds the covariance of all columns; all sites are targets.

    `maps`: with draws in place of what is censored
    """

    def __init__(self, maps: Maps, base: FieldBase) -> None:
        self.maps, self.settings, self.courses = maps, base.settings, base.courses
        self.columns = maps.sites.columns
        self._kernel = base.kernel.of(self.columns)
        own = maps.sites.own
        self._near = candidates(self._kernel, own)
        self.prior: NearColumns = OfMatrix(self._kernel, own, self._near)

    def evidence(self, courses: Courses) -> Evidence:
        """Rows of anomalies as others are predicted from them."""
        return self.maps.evidence(courses)

    def without(self, courses: Courses, left: Bool[Tensor, "times"]) -> OfMatrix:
        """Near each target, of a base fitted to the maps that are left."""
        products = self.maps.products(courses, self._kernel, left)
        joint = self.settings.joint(products, self._kernel)
        return OfMatrix(joint.covariance, self.maps.sites.own, self._near)


class LocalView:
    """A base of many sites; some of them are targets."""

    def __init__(self, maps: Maps, base: LocalBase) -> None:
        self.maps, self.settings, self.courses = maps, base.settings, base.courses
        near = OfBlocks(base.prior, base.near)
        self._some = SomeTargets(maps, base.filled, near, most=MOST_TARGETS)
        self.columns = self._some.columns
        self.prior: NearColumns = self._some.prior

    def evidence(self, courses: Courses) -> Evidence:
        """Rows of anomalies as others are predicted from them."""
        return Evidence(*self._some.rows(courses))

    def without(self, courses: Courses, left: Bool[Tensor, "times"]) -> OfBlocks:
        """Near each target, of a base fitted to the maps that are left."""
        share, products = self.settings.shrinkage, self._some.products(courses, left)
        prior = self._some.prior
        return OfBlocks((1 - share) * products + share * prior.block, prior.columns)
