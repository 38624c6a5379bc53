"""What a positional encoding makes of the places of a table's columns, for each member."""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.encodings import Encoding, EncodingSizes, NoEncoding, build_encoding, pair_scores

__all__ = ["OWN_VECTORS", "ColumnPlaces", "column_places"]

# The encoding that is a part of the tokens themselves: one free vector a column.
OWN_VECTORS = "learned"


class ColumnPlaces(nn.Module):
    """One encoding for each member of an ensemble; positions are 0 .. n_columns - 1.

    >>> from exfam.encodings import ALiBi
    >>> places, x = ColumnPlaces([ALiBi(1)], n_columns=3), torch.zeros(1, 1, 1, 3, 2)
    >>> column = torch.arange(3)[None]
    >>> places.scores(x, x, column[None], column, scale=1.0).shape
    torch.Size([1, 1, 1, 3, 3])
    """

    def __init__(self, encodings: Sequence[Encoding], *, n_columns: int) -> None:
        super().__init__()
        self.encodings = nn.ModuleList(encodings)
        self.n_columns = n_columns

    @property
    def members(self) -> list[Encoding]:
        """The encodings."""
        return [cast(Encoding, encoding) for encoding in self.encodings]

    def vectors(self) -> Float[Tensor, "members columns embed"] | None:
        """What is added to the tokens of each column, or None.

        Vectors that are learned are a part of the tokens: these are fixed.
        """
        place = torch.arange(self.n_columns)[None]
        told = [encoding.embed(place) for encoding in self.members]
        added = [vectors[0] for vectors in told if vectors is not None]
        return torch.stack(added).detach() if added else None

    @property
    def only_vectors(self) -> bool:
        """Whether scores are plain products: those of tokens, with vectors of places or without."""
        return all(isinstance(each, NoEncoding) or each.embeds for each in self.members)

    def scores(
        self,
        q: Float[Tensor, "members rows heads query head"],
        k: Float[Tensor, "members rows heads key head"],
        query_place: Int64[Tensor, "#members #rows query"],
        key_place: Int64[Tensor, "#rows key"],
        *,
        scale: float,
    ) -> Float[Tensor, "members rows heads query key"]:
        """Scores of all pairs of cells that stand in the columns of these places."""
        n_rows = q.shape[1]
        asked = query_place.expand(len(self.members), n_rows, -1)
        key_place = key_place.expand(n_rows, -1)
        told = []
        for encoding, own_q, own_k, place in zip(self.members, q, k, asked, strict=True):
            turned = encoding.rotate(own_q, place), encoding.rotate(own_k, key_place)
            told.append(pair_scores(encoding, *turned, (place, key_place), scale=scale))
        return torch.stack(told)


def column_places(name: str, n_members: int, sizes: EncodingSizes) -> ColumnPlaces | None:
    """The encodings of that name, None for the one that is a part of the tokens.

    `sizes`: its positions are the columns

    Raises ExfamError for an unknown name, and for sizes that the encoding does not take.

    >>> sizes = EncodingSizes(n_heads=1, head_dim=2, embed_dim=4, n_positions=3,
    ...     generator=torch.Generator().manual_seed(0))
    >>> column_places("learned", 1, sizes) is None
    True
    """
    if name == OWN_VECTORS:
        return None
    encodings = [build_encoding(name, sizes) for _ in range(n_members)]
    return ColumnPlaces(encodings, n_columns=sizes.n_positions)
