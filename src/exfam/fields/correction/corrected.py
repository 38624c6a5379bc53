"""A base of fields with attention on its innovations, as one part."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from exfam.fields.base.folds import candidates
from exfam.fields.base.part import FieldBasePart
from exfam.fields.correction.cross_fit import Examples, around_of, examples_of
from exfam.fields.correction.pair_attention import PairAttention
from exfam.fields.correction.tokens import NearPairs, n_pair_features, pairs_of
from exfam.fields.correction.train import CLOSED, Gates
from exfam.groups import Batch

# Of each target beside its innovations: three numbers of the base, two of the year, coordinates.
_N_CONTEXT = 5


class SeenMaps(NamedTuple):
    """What attention sees of a batch; which elements are targets, their sites and columns."""

    examples: Examples
    pairs: NearPairs
    own: Bool[Tensor, "batch length"]
    site: Int64[Tensor, "batch length"]
    column: Int64[Tensor, "batch length"]


class CorrectedFieldPart(nn.Module):
    """The base, its locations and scales shifted at known sites by the mean of all members.

    With gates of 0 it is the base, bit for bit. Predictions at new sites are the base's.
    """

    direction = "bidirectional"

    def __init__(self, base: FieldBasePart, *, n_members: int) -> None:
        super().__init__()
        self.base = base
        n_pair, n_context = n_pair_features(base.n_lags), _N_CONTEXT + base.normal.n_flat
        generator = torch.Generator().manual_seed(0)
        self.members = nn.ModuleList(
            PairAttention(n_pair, n_context, generator=generator) for _ in range(n_members)
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
        seen = self.see(batch)
        shifts = self.shifts(seen.examples, seen.pairs).double()
        log_sd = seen.examples.log_sd.double() + self.base.normal.log_scale
        moves = torch.stack([shifts[..., 0] * log_sd.exp(), shifts[..., 1]], -1)
        row = torch.arange(len(eta))[:, None].expand_as(seen.site)[seen.own]
        out = eta.clone()
        out[seen.own] += nn.functional.pad(moves[row, seen.site[seen.own]], (0, 1))
        return out

    def shifts(self, examples: Examples, pairs: NearPairs) -> Float[Tensor, "rows targets 2"]:
        """What is added to locations, in standard deviations, and to log scales."""
        members = [member(examples.tokens, pairs) for member in self.members]
        return self.gates * torch.stack(members).mean(0)

    def see(self, batch: Batch) -> SeenMaps:
        """What attention sees of the known sites of each map."""
        known, (sites, _, both, joint) = self.base.known_rows(batch), self.base.known()
        near = candidates(both.prior, sites.own)
        pairs = pairs_of(known.shown, both.prior, sites.columns, near, n_near=joint.n_near)
        time: Float64[Tensor, "batch"] = batch.group_attributes["time"].double().flatten()
        around = around_of(time, self.base.normal.clock, sites)
        examples = examples_of(known.rows, known.shown, joint, near, pairs, around=around)
        return SeenMaps(examples, pairs, known.own, known.site, known.column)
