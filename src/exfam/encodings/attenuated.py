"""Encodings whose weights fall with the squared offset: fixed, or tables that start so.

a_ij = -w l^2 for keys before the query and -s w l^2 from the query on, l the offset: `w` > 0 sets
locality and `s` > 0 symmetry. delta = softmax_j(a_ij) are at most 1: added to scores, as the paper
writes it, they change attention little; their logarithms make attention as local as delta itself.
Source: Chen, Varoquaux & Suchanek (2023), eq. 8.
"""

import torch
from torch import Tensor, nn

from exfam.checks import ExfamError, check_choice, check_positive
from exfam.encodings.base import (
    Encoding,
    KeyPosition,
    Pairs,
    Queries,
    QueryPosition,
    checked_rows,
    offsets,
)

# What is added to the scores: the logarithms of delta, or delta itself.
ADDED = ("log", "probability")
# Locality and symmetry unless given.
W, S = 0.05, 1.0
# Times the square of any offset it is a float.
MOST_SLOPE = 1e20
# A table of more positions has more numbers than a model.
MOST_POSITIONS = 8192


def _attenuation(offset: Tensor, *, w: float, s: float) -> Tensor:
    """a_ij of eq. 8, of offsets key - query."""
    slope = torch.where(offset >= 0, s * w, w)
    return -slope * offset.to(slope.dtype).square()


class Attenuated(Encoding):
    """Fixed weights that fall with the squared offset; they replace the scores altogether.

    `w`: how fast. `s`: by how much faster after the query than before it; `w` and `s` * `w` are
    at most 1e20. Attention normalizes over the keys it may see.

    >>> position = torch.arange(3)[None]
    >>> Attenuated(w=1.0, s=1.0).log_weights(position, position)[0, 0, 0].tolist()
    [-0.0, -1.0, -4.0]
    """

    replaces = True

    def __init__(self, *, w: float | int = W, s: float | int = S) -> None:
        super().__init__()
        _check_attenuation(w, s)
        self.w, self.s = float(w), float(s)

    def log_weights(self, query_position: QueryPosition, key_position: KeyPosition) -> Pairs:
        offset = offsets(query_position, key_position)
        return _attenuation(offset, w=self.w, s=self.s)[:, None]


class AttenuatedBias(Encoding):
    """The logarithms of attenuated `weights`, added to the scores of the tokens.

    Rows' constants do not matter to a softmax, so that the bias is a_ij itself: attention is
    attenuated where tokens say nothing.
    """

    def __init__(self, weights: Attenuated) -> None:
        super().__init__()
        self.weights = weights

    def bias(self, q: Queries, query_position: QueryPosition, key_position: KeyPosition) -> Pairs:
        return self.weights.log_weights(query_position, key_position).to(q.dtype)


class AttenuatedTable(Encoding):
    """A number for each pair of positions, added to the scores; it starts attenuated.

    `n_tables`: one a head, or 1 for all heads (BERT-A*, BERT-A*-s). `added`: what the table starts
    as, "log" for the logarithms of delta or "probability" for delta, as the paper writes it, delta
    normalized over all `n_positions`. `learned`: whether training changes it (default True)

    Raises ExfamError for more positions than 8,192, and for a position outside 0 .. n_positions - 1
    or not an integer. Source: Chen, Varoquaux & Suchanek (2023), section 3.3.2 and Listing 1.

    >>> encoding = AttenuatedTable(3, w=1.0, added="probability")
    >>> [round(share, 3) for share in encoding.table[0, 0].tolist()]
    [0.721, 0.265, 0.013]
    """

    table: Tensor

    def __init__(
        self,
        n_positions: int,
        *,
        n_tables: int = 1,
        w: float = W,
        s: float = S,
        added: str = "log",
        learned: bool = True,
    ) -> None:
        super().__init__()
        check_positive("n_positions", n_positions)
        check_positive("n_tables", n_tables)
        _check_attenuation(w, s)
        check_choice("added", added, ADDED)
        if n_positions > MOST_POSITIONS:
            raise ExfamError(
                f"`position` must be below {MOST_POSITIONS:,} for a table of all pairs, got a "
                f"range of {n_positions:,}. Use encoding='attenuated-bias', which keeps none."
            )
        position = torch.arange(n_positions)
        logits = _attenuation(position - position[:, None], w=w, s=s)
        start = logits.softmax(-1) if added == "probability" else logits
        tables = start.repeat(n_tables, 1, 1)
        self.n_heads, self.n_positions = n_tables, n_positions
        if learned:
            self.table = nn.Parameter(tables)
        else:
            self.register_buffer("table", tables, persistent=False)

    def bias(self, q: Queries, query_position: QueryPosition, key_position: KeyPosition) -> Pairs:
        rows, columns = (
            checked_rows(position, self.table.shape[-1], name="attenuated-table")
            for position in (query_position, key_position)
        )
        chosen = self.table[:, rows[:, :, None], columns[:, None, :]]
        return chosen.transpose(0, 1).to(q.dtype)


def _check_attenuation(w: float | int, s: float | int) -> None:
    check_positive("w", w)
    check_positive("s", s)
    if w > MOST_SLOPE or s > MOST_SLOPE / w:
        raise ExfamError(
            f"`w` and `s` * `w` must be at most {MOST_SLOPE:g}, got w={w!r} and s={s!r}. From "
            "w=100 on an element sees itself alone."
        )
