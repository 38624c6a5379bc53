"""Positional encodings of a table's columns, one for each member of an ensemble."""

from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from exfam.encodings import Encoding, EncodingSizes, NoEncoding, build_encoding, pair_scores

# The encoding that is a part of the tokens themselves: one free vector per column.
OWN_VECTORS = "learned"


class ColumnEncodings(nn.Module):
    """Encodings of members; the positions are the columns, 0 .. n_columns - 1."""

    def __init__(self, encodings: Sequence[Encoding], *, n_columns: int) -> None:
        super().__init__()
        self.encodings = nn.ModuleList(encodings)
        self.n_columns = n_columns

    @property
    def members(self) -> list[Encoding]:
        """The encodings, typed."""
        return [cast(Encoding, encoding) for encoding in self.encodings]

    @property
    def only_vectors(self) -> bool:
        """Whether scores are plain products of tokens, with added vectors or without."""
        return all(isinstance(member, NoEncoding) or member.embeds for member in self.members)

    def vectors(self, embed_dim: int) -> Float[Tensor, "members columns embed"]:
        """The fixed vectors that are added to the tokens of each column; zeros without any."""
        position = torch.arange(self.n_columns)[None]
        vectors = [member.embed(position) for member in self.members]
        added = [vector[0] for vector in vectors if vector is not None]
        if added:
            return torch.stack(added).detach()
        return torch.zeros(len(vectors), self.n_columns, embed_dim)

    def scores(
        self,
        q: Float[Tensor, "members rows heads query head"],
        k: Float[Tensor, "members rows heads key head"],
        query_column: Int64[Tensor, "#members #rows query"],
        key_column: Int64[Tensor, "#rows key"],
        *,
        scale: float,
    ) -> Float[Tensor, "members rows heads query key"]:
        """Scores of all pairs of cells that stand in these columns."""
        n_rows = q.shape[1]
        query_columns = query_column.expand(len(self.members), n_rows, -1)
        key_column = key_column.expand(n_rows, -1)
        scores = []
        for member, own_q, own_k, own in zip(self.members, q, k, query_columns, strict=True):
            rotated = member.rotate(own_q, own), member.rotate(own_k, key_column)
            scores.append(pair_scores(member, *rotated, (own, key_column), scale=scale))
        return torch.stack(scores)


def column_encodings(name: str, n_members: int, sizes: EncodingSizes) -> ColumnEncodings | None:
    """The encodings of that name, None for the one that is a part of the tokens.

    `sizes`: its positions are the columns

    Raises ExfamError for an unknown name, and for sizes that the encoding does not take.
    """
    if name == OWN_VECTORS:
        return None
    encodings = [build_encoding(name, sizes) for _ in range(n_members)]
    return ColumnEncodings(encodings, n_columns=sizes.n_positions)
