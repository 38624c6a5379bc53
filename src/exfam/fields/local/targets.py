"""Some sites of many, what is near them, and a base of them fitted to fewer maps."""

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from exfam.fields.base.conditionals import OfBlocks
from exfam.fields.base.courses import Courses
from exfam.fields.base.folds import Maps, Rows, Shown, some_sites
from exfam.fields.local.blocks import Blocks, FilledMaps, product_blocks, with_own


class SomeTargets:
    """Rows of the columns that some sites are predicted from, the sites' own ones first.

    `sites`: of the targets; `prior`: near each of them among these columns, of the kernel
    """

    def __init__(self, maps: Maps, filled: FilledMaps, near: OfBlocks, *, most: int) -> None:
        self.maps, self._filled = maps, filled
        self.sites = some_sites(len(maps.sites.terms), most)
        of_some = near.columns[self.sites]
        others = of_some.unique()
        self._used = torch.cat([self.sites, others[~torch.isin(others, self.sites)]])
        self._chosen = with_own(self.sites, of_some)
        order = self._used.argsort()
        columns = order[torch.searchsorted(self._used[order], of_some)]
        self.prior = OfBlocks(near.block[self.sites], columns)
        self.columns = maps.sites.columns.take(self._used)

    def rows(self, courses: Courses) -> tuple[Rows, Shown]:
        """Rows of anomalies, and what of them is shown."""
        return self.maps.columns(courses, self._used)

    def products(self, courses: Courses, left: Bool[Tensor, "times"]) -> Blocks:
        """Mean products of each target's columns over the maps that are left."""
        known = left.nonzero()[:, 0]
        return product_blocks(self._filled.known(left), courses, self._chosen, known)

    def log_scale(self, courses: Courses) -> Float64[Tensor, "targets"]:
        """Logarithms of the targets' spreads."""
        return courses.scale[self.sites].log()
