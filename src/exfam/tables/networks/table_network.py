"""What the linear and the deep network of tables share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from exfam.tables.networks.batch import CellBatch
from exfam.tables.networks.parts import OWN_VECTORS, CellTokens, ColumnEncodings, Readout

Outputs = Float[Tensor, "members batch targets params"]
AttentionWeights = Float[Tensor, "members layers batch heads targets columns"]


@dataclass(frozen=True)
class TableSettings:
    """What a network is made of, by parameters of estimators.

    `ordinal`: for each of the networks side by side
    `masked_columns`: names of columns whose absent cells are shown as MASK tokens
    `positive_in_units`: whether families of positive numbers are of values divided by their mean
    """

    network: str
    categories: str
    ordinal: tuple[bool, ...]
    embed_dim: int
    n_heads: int
    head_dim: int
    n_layers: int
    feed_forward_dim: int
    dropout: float
    norm: str
    masked_columns: tuple[str, ...]
    # Stored models older than these choices have none.
    encoding: str = OWN_VECTORS
    positive_in_units: bool = False


class TableNetwork(nn.Module, ABC):
    """Tokens of cells, attention between them, and a readout: one set of weights per member.

    `places`: encodings of the columns; its name is that of its tensors in saved models
    """

    def __init__(
        self,
        tokens: CellTokens,
        readout: Readout,
        settings: TableSettings,
        *,
        generator: torch.Generator,
        places: ColumnEncodings | None = None,
    ) -> None:
        super().__init__()
        self.tokens, self.readout, self.places = tokens, readout, places
        self.settings, self.n_heads, self.head_dim = settings, settings.n_heads, settings.head_dim
        self.n_members = tokens.plan.n_members
        self.add_layers(settings, generator)

    @abstractmethod
    def add_layers(self, settings: TableSettings, generator: torch.Generator) -> None:
        """Add the parts between tokens and readout."""

    @abstractmethod
    def forward(self, batch: CellBatch, targets: Sequence[int]) -> Outputs:
        """Parameters of each target column given the other cells of its row that are there."""

    @abstractmethod
    def weights(self, batch: CellBatch, targets: Sequence[int]) -> AttentionWeights:
        """Attention weights of each target; in its own column there is its MASK."""
