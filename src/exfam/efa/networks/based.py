"""An item part that is a simple model with a correction: eta = scale * base + gate * correction.

And its probabilities may be mixed with those of the simple model alone.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.catalog.linear import LinearEta, chunks_of
from exfam.efa.base.kept import KeptOutputs
from exfam.efa.base.sets import Where
from exfam.efa.networks.based_values import BasedValues
from exfam.efa.networks.efa_network import EFANetwork
from exfam.embeddings import is_by_row
from exfam.groups import Batch
from exfam.training.precision import exactly

# The share of the base that a correction is trained beside, and the weights of both where there are
# no validation groups to choose them by.
TRAINED_SCALE, USUAL_WEIGHTS = 0.5, (0.7, 0.6)
# Outputs of a base that are computed at once, as far as they are needed.
MOST_AT_ONCE = 2**22


def present_elements(batch: Batch) -> Where:
    """Groups and positions of the elements that are no padding."""
    row, position = batch.present.nonzero(as_tuple=True)
    return row, position


@dataclass(frozen=True, eq=False)
class BaseOffset:
    """Outputs of a base at some elements of a batch, tile by tile; `codes`: the chosen items.

    A base is a module with `n_items`, `direction` and `outputs(batch, where, chosen)`; it may have
    `own(batch, where, item)`, the output of one item a row or None.
    """

    base: Any
    batch: Batch
    where: Where
    codes: Int64[Tensor, "chosen"]
    scale: Float[Tensor, "one_or_items"] | Float[Tensor, ""]

    def at(self, where: Where | slice) -> "BaseOffset":
        """The same at other elements, or at some of these."""
        if isinstance(where, slice):
            where = (self.where[0][where], self.where[1][where])
        return replace(self, where=where)

    def among(self, chosen: Int64[Tensor, "chosen"]) -> "BaseOffset":
        """The same of some of the items."""
        return replace(self, codes=self.codes[chosen])

    def tile(self, rows: slice, classes: slice) -> Float[Tensor, "rows classes"]:
        """Outputs of some rows and classes."""
        if len(self.where[0]) * len(self.codes) <= MOST_AT_ONCE:
            return self._all[rows, classes]
        here = (self.where[0][rows], self.where[1][rows])
        return self._outputs(here, self.codes[classes])

    # Tiles are gone through twice, for outputs and for gradients.
    @cached_property
    def _all(self) -> Float[Tensor, "rows classes"]:
        return self._outputs(self.where, self.codes)

    def _outputs(self, where: Where, codes: Tensor) -> Float[Tensor, "rows classes"]:
        with torch.no_grad(), exactly(self.scale.device):
            outputs: Tensor = self.base.outputs(self.batch, where, codes)
            return outputs.mul_(self._scale_of(codes))

    def _scale_of(self, codes: Tensor) -> Tensor:
        return self.scale[codes] if self.scale.dim() else self.scale

    def own(self, item: Int64[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """The output of one item a row."""
        alone = getattr(self.base, "own", None)
        own = None if alone is None else alone(self.batch, self.where, self.codes[item])
        if own is not None:
            return own * self._scale_of(self.codes[item])
        parts = [self.scale.new_zeros(0)]
        for rows in chunks_of(len(item), 512):
            distinct, column = item[rows].unique(return_inverse=True)
            some = self.at(rows).among(distinct)
            chosen = some.tile(slice(0, len(column)), slice(0, len(distinct)))
            parts.append(chosen.gather(1, column[:, None])[:, 0])
        return torch.cat(parts)


class BasedItems(nn.Module):
    """p(item | context) by a base, corrected: eta = scale * base + gate * correction.

    While it is trained the gate is 1, and `scale` is `TRAINED_SCALE`: a correction of the whole
    base learns little but what the base has wrong in training, one that has half of it is a model
    of its own. Afterwards validation sets both, and `mix`: the share of the base alone in the
    probabilities, which keeps what it puts first where a catalog is large. `kept`: the base's
    outputs that training, and then what weighs the correction, have seen. `of_new`: weights of both
    for the last items, where these are new.
    """

    kept: KeptOutputs | None = None
    of_new: tuple[Tensor, Tensor] | None = None

    scale: Tensor
    gate: Tensor
    mix: Tensor

    def __init__(self, base: nn.Module, correction: nn.Module) -> None:
        super().__init__()
        self.base, self.correction = base, correction
        self.register_buffer("scale", torch.tensor(1.0 if self.is_alone else TRAINED_SCALE))
        self.register_buffer("gate", torch.tensor(1.0))
        self.register_buffer("mix", torch.tensor(0.0))

    def weigh(self, scale: float, gate: float, mix: float = 0.0) -> None:
        """Set the weights of the base and of the correction, and the share of the base alone."""
        self.scale.fill_(scale)
        self.gate.fill_(gate)
        self.mix.fill_(mix)

    @property
    def is_alone(self) -> bool:
        """Whether nothing corrects the base."""
        return isinstance(self.correction, NoCorrection)

    def alone(self) -> "BasedItems":
        """The base as if nothing corrected it; its tensors are the same ones."""
        nothing = NoCorrection(self.n_items, self.direction)
        alone = BasedItems(self.base, nothing).to(self.gate.device)
        alone.kept, alone.of_new = self.kept, self.of_new
        return alone

    def weights(self) -> tuple[Tensor, Tensor]:
        """Of the base and of the correction, by item where some are new."""
        if self.of_new is None:
            return self.scale, self.gate
        scale, gate = (
            torch.cat([old.repeat(self.n_items - len(new)), new.to(old)])
            for old, new in zip((self.scale, self.gate), self.of_new, strict=True)
        )
        return scale, gate

    @property
    def direction(self) -> str:
        """Of the correction, and of the base."""
        return str(self.correction.direction)

    @property
    def n_items(self) -> int:
        """How many outputs there are."""
        return int(self.base.n_items)  # type: ignore[arg-type]

    def numbers_an_element(self, longest: int) -> int:
        """Of the correction."""
        count: Any = self.correction.numbers_an_element
        return int(count(longest))

    def eta(self, batch: Batch) -> Float[Tensor, "batch length items"]:
        """Outputs at all elements, each given its context."""
        correct: Any = self.correction
        eta = correct.eta(batch) * self.weights()[1]
        where = present_elements(batch)
        every = slice(0, self.n_items)
        offset = self.offset(batch, where).tile(slice(0, len(where[0])), every)
        return eta.index_put(where, offset.to(eta.dtype), accumulate=True)

    def linear(self, batch: Batch) -> LinearEta:
        """The same as factors, with the base's outputs beside them."""
        correct: Any = self.correction
        eta = correct.linear(batch)
        bias, where = eta.bias, present_elements(batch)
        if self.of_new is not None:
            gate = self.weights()[1]
            vectors = eta.vectors[: self.n_items] * gate[:, None]
            bias = None if bias is None else bias * gate
            return eta._replace(vectors=vectors, bias=bias, offset=self.offset(batch, where))
        # In a fit the gate is 1, and a product would read those of all items.
        if bias is not None and not is_by_row(bias):
            bias = bias * self.gate
        return eta._replace(
            state=eta.state * self.gate, bias=bias, offset=self.offset(batch, where)
        )

    def offset(self, batch: Batch, where: Where) -> BaseOffset:
        """The base's outputs at some elements."""
        codes = torch.arange(self.n_items, device=batch.present.device)
        return BaseOffset(self.kept or self.base, batch, where, codes, self.weights()[0])


class NoCorrection(nn.Module):
    """Adds nothing: the base alone."""

    def __init__(self, n_items: int, direction: str) -> None:
        super().__init__()
        self.n_items, self.direction = n_items, direction
        # Says on which device the model is.
        self.register_buffer("nothing", torch.zeros(n_items, 0), persistent=False)

    def eta(self, batch: Batch) -> Float[Tensor, "batch length items"]:
        """Zeros."""
        nothing: Any = self.nothing
        return nothing.new_zeros(*batch.present.shape, self.n_items)

    def linear(self, batch: Batch) -> LinearEta:
        """Products of nothing."""
        nothing: Any = self.nothing
        state = nothing.new_zeros(*batch.present.shape, 0)
        return LinearEta(state, nothing, None, self.n_items)

    def numbers_an_element(self, longest: int) -> int:
        """None of its own."""
        return 0


def network_of(part: nn.Module | None) -> EFANetwork | None:
    """The network with attention of a part, which may be the correction of a base."""
    if isinstance(part, BasedValues):
        part = getattr(part.correction, "network", None)
    part = part.correction if isinstance(part, BasedItems) else part
    return part if isinstance(part, EFANetwork) else None
