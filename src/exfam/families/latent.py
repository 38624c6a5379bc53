"""Families of values that are an increasing function of a latent real number."""

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from exfam.families.base import PlainFamily
from exfam.families.student_t import StudentT


class OfLatent(PlainFamily):
    """Values of scale 1 are a function of a latent Student's t, whose parameters are `eta`.

    Values and latent numbers rise together; all latent numbers up to `limit`, if any, are the
    least value.
    """

    equivariance: ClassVar[str] = "scale"
    limit: ClassVar[float | None] = None

    @property
    @abstractmethod
    def latent(self) -> StudentT:
        """The distribution of the latent number."""

    @abstractmethod
    def to_latent(self, value: Tensor) -> Tensor:
        """The latent number of each value, the limit of the least one."""

    @abstractmethod
    def from_latent(self, latent: Tensor) -> Tensor:
        """The value of each latent number."""

    @abstractmethod
    def log_slope(self, value: Tensor) -> Tensor:
        """Log of how fast the latent number of a value rises with it; 0 at the least value."""

    @abstractmethod
    def latent_unit(self, scale: float) -> tuple[float, float]:
        """(shift, factor): latent numbers of scale * y are shift + factor * those of y."""
