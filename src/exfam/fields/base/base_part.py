"""What the parts of bases of few sites and of many share."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from exfam.fields.base.conditionals import MOST_DF
from exfam.fields.base.elements import (
    FieldElements,
    KnownRows,
    NearSites,
    NormalPart,
    known_rows_of,
)
from exfam.fields.base.fit import FieldBase
from exfam.fields.base.frame import Frame
from exfam.fields.base.kernel import MovingKernel, n_numbers
from exfam.fields.base.new_sites import Calibration
from exfam.fields.networks.assemble import FieldShape
from exfam.groups import Batch

# Degrees of freedom, columns (0 for all); of new sites: degrees, stretch, tails; tails of known
# ones (0 for those of the multivariate t).
START = (MOST_DF, 0.0, MOST_DF, 1.0, MOST_DF, 0.0)


class BasePart(nn.Module, ABC):
    """p(value | others shown of its map and of those before it); buffers alone.

    `chosen`: what a kind of base has first (the weight of the kernel), then those of `START`
    """

    direction = "bidirectional"

    def __init__(
        self,
        shape: FieldShape,
        *,
        period: float,
        limit: float | None = None,
        more: tuple[float, ...] = (),
    ) -> None:
        super().__init__()
        self.n_sites, self.n_lags = shape.n_sites, shape.lags
        self.normal = NormalPart(shape, period=period, limit=limit)
        self.kernel = nn.Buffer(torch.zeros(n_numbers(self.normal.n_flat)).double())
        self.chosen = nn.Buffer(torch.tensor([*more, *START]).double())
        self.register_load_state_dict_pre_hook(without_own_tails)

    @abstractmethod
    def of_elements(self, elements: FieldElements) -> Float[Tensor, "batch length 3"]:
        """Location, log scale and log(df - 2) of elements whose anomalies are known."""

    @abstractmethod
    def joint_levels(
        self, batch: Batch, *, generator: torch.Generator
    ) -> Float64[Tensor, "batch length"]:
        """Probabilities below joint draws of what is missing on the maps themselves; else 1/2."""

    @abstractmethod
    def near_sites(self) -> Iterator[NearSites]:
        """All known sites, some at a time."""

    @torch.no_grad()
    def eta(self, batch: Batch) -> Float[Tensor, "batch length 3"]:
        """Location, log scale and log(df - 2) of every element of the maps themselves."""
        return self.of_elements(self.normal.elements(batch))

    def known_rows(self, batch: Batch) -> KnownRows:
        """The batch as rows of known sites; values at new places are not among them."""
        return known_rows_of(self.normal.elements(batch), self.n_sites, self.n_lags)

    def location(self, batch: Batch) -> Float64[Tensor, "batch length"]:
        """What is normal at each element's site and time."""
        return self.normal.elements(batch).location

    @property
    def df(self) -> float:
        """Degrees of freedom at known sites."""
        return float(self.chosen[-6])

    @property
    def n_near(self) -> int | None:
        """How many columns a value is predicted from; None for all."""
        return int(self.chosen[-5]) or None

    @property
    def calibration(self) -> Calibration:
        """Of new sites."""
        return Calibration(*self.chosen[-4:-1].tolist())

    @property
    def tails(self) -> float | None:
        """Those of predictions at known sites; None for those of the multivariate t."""
        return float(self.chosen[-1]) or None

    @property
    def moving_kernel(self) -> MovingKernel:
        """The kernel of these numbers."""
        return MovingKernel(self.kernel, self.normal.n_flat)

    def take(self, base: FieldBase, frame: Frame) -> None:
        """Fill in what a base has learned."""
        settings = base.settings
        self.normal.take(base.courses, base.surfaces, frame)
        self.kernel.copy_(base.kernel.numbers)
        tails = [*base.calibration, settings.tails or 0.0]
        numbers = [settings.df, float(settings.n_near or 0), *tails]
        self.chosen[: -len(START)] = settings.shrinkage
        self.chosen[-len(START) :] = torch.tensor(numbers, dtype=torch.float64)
        for name, learned in base.numbers.items():
            self.get_buffer(name).copy_(learned)


def without_own_tails(
    module: nn.Module, state: dict[str, Tensor], prefix: str, *rest: object
) -> None:
    """Bases stored before there were tails of known sites have those of a multivariate t."""
    name, n_missing = f"{prefix}chosen", 1
    stored = state.get(name)
    if stored is not None and len(stored) + n_missing == len(module.get_buffer("chosen")):
        state[name] = nn.functional.pad(stored, (0, n_missing))
