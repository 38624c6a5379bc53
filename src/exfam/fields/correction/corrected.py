"""A base of fields with attention on its innovations, as one part."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from exfam.fields.base.columns import map_columns
from exfam.fields.base.elements import KnownRows
from exfam.fields.base.part import FieldBasePart
from exfam.fields.correction.cross_fit import Examples, JointNear, around_of, examples_of
from exfam.fields.correction.tokens import NearPairs, n_pair_features, pairs_of
from exfam.fields.correction.train import CLOSED, Gates, PairAttention
from exfam.fields.local.local_part import LocalBasePart
from exfam.groups import Batch

# Of each target beside its innovations: three numbers of the base, two of the year, coordinates.
_N_CONTEXT = 5


class SeenMaps(NamedTuple):
    """What attention sees of some sites of a batch of maps."""

    sites: Int64[Tensor, "targets"]
    examples: Examples
    pairs: NearPairs


class CorrectedFieldPart(nn.Module):
    """The base, its locations and scales shifted at known sites by the mean of all members.

    With gates of 0 it is the base, bit for bit. Predictions at new sites are the base's.
    """

    direction = "bidirectional"

    def __init__(
        self, base: FieldBasePart | LocalBasePart, *, n_members: int, n_reads: int = 2
    ) -> None:
        super().__init__()
        self.base = base
        n_pair, n_context = n_pair_features(base.n_lags), _N_CONTEXT + base.normal.n_flat
        generator = torch.Generator().manual_seed(0)
        self.members = nn.ModuleList(
            PairAttention(n_pair, n_context, n_reads=n_reads, generator=generator)
            for _ in range(n_members)
        )
        self.gates = nn.Buffer(torch.tensor(CLOSED))

    def take(self, members: Sequence[PairAttention], gates: Gates) -> "CorrectedFieldPart":
        """The part with trained members."""
        self.members = nn.ModuleList(members)
        self.gates.copy_(torch.tensor(gates))
        return self

    @torch.no_grad()
    def eta(self, batch: Batch) -> Float[Tensor, "batch length 3"]:
        """Location, log scale and log(df - 2) of every element of the maps themselves."""
        eta = self.base.eta(batch)
        if not self.gates.any():
            return eta
        known, out = self.base.known_rows(batch), eta.clone()
        for seen in self.see(batch, known):
            shifts = self.shifts(seen.examples, seen.pairs).double()
            log_sd = seen.examples.log_sd.double() + self.base.normal.log_scale[seen.sites]
            moves = torch.stack([shifts[..., 0] * log_sd.exp(), shifts[..., 1]], -1)
            mine = known.own & torch.isin(known.site, seen.sites)
            row, at = mine.nonzero()[:, 0], known.site[mine] - seen.sites[0]
            out[mine] += nn.functional.pad(moves[row, at], (0, 1))
        return out

    def joint_levels(
        self, batch: Batch, *, generator: torch.Generator
    ) -> Float64[Tensor, "batch length"]:
        """Probabilities below joint draws of what is missing, hanging together as in the base."""
        return self.base.joint_levels(batch, generator=generator)

    def shifts(self, examples: Examples, pairs: NearPairs) -> Float[Tensor, "rows targets 2"]:
        """What is added to locations, in standard deviations, and to log scales."""
        members = [member(examples.tokens, pairs) for member in self.members]
        return self.gates * torch.stack(members).mean(0)

    def see(self, batch: Batch, known: KnownRows) -> Iterator[SeenMaps]:
        """What attention sees of the known sites of each map, some sites after the others."""
        base, normal = self.base, self.base.normal
        columns = map_columns(normal.points, base.n_lags)
        time: Float64[Tensor, "batch"] = batch.group_attributes["time"].double().flatten()
        for sites, covariance, prior in base.near_sites():
            pairs = pairs_of(known.rows.shown, prior, columns, sites, n_near=base.n_near)
            around = around_of(time, normal.clock, normal.points[sites, : normal.n_flat])
            joint = JointNear(covariance, base.df, base.n_near, base.tails)
            examples = examples_of(known.rows, joint, sites, pairs, around=around)
            yield SeenMaps(sites, examples, pairs)
