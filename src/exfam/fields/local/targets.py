"""Rows of the columns that some sites of many are predicted from."""

import torch
from jaxtyping import Bool
from torch import Tensor

from exfam.fields.base.conditionals import NearColumns, OfBlocks
from exfam.fields.base.courses import Courses
from exfam.fields.base.limits import Evidence
from exfam.fields.base.maps import Maps, some_sites
from exfam.fields.local.blocks import Blocks, FilledMaps, product_blocks, with_own


class LocalRows:
    """Rows of the columns near some sites, the targets, as `BaseRows`; at most so many of them."""

    def __init__(self, maps: Maps, filled: FilledMaps, near: OfBlocks, *, most: int) -> None:
        self.maps, self._filled = maps, filled
        self.targets = some_sites(len(maps.sites.terms), most)
        of_some = near.columns[self.targets]
        others = of_some.unique()
        self._used = torch.cat([self.targets, others[~torch.isin(others, self.targets)]])
        self._chosen = with_own(self.targets, of_some)
        order = self._used.argsort()
        columns = order[torch.searchsorted(self._used[order], of_some)]
        self.prior: NearColumns = OfBlocks(near.block[self.targets], columns)
        self.columns = maps.sites.columns.take(self._used)

    def evidence(self, courses: Courses) -> Evidence:
        """Rows of anomalies as others are predicted from them."""
        return Evidence(*self.maps.columns(courses, self._used))

    def products(self, courses: Courses, left: Bool[Tensor, "times"]) -> Blocks:
        """Mean products of each target's columns over the maps that are left."""
        known = left.nonzero()[:, 0]
        return product_blocks(self._filled.known(left), courses, self._chosen, known)
