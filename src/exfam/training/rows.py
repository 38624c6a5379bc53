"""Steps of large tables of which a batch reads a few rows: AdamW, at the cost of these rows.

AdamW moves every row at every step: one without a gradient by what is left of its moments, and by
weight decay. Here a row stays as it is until it is read; then what its skipped steps come to is
worked out in closed form. Skipped after step l, with moments m and v, steps k = l + 1 … t leave

    row[t] = D * row[l] - E * m / (sqrt(v) + eps)
    D = product of (1 - rate[k] * decay)
    E = sum of rate[k] * sqrt(1 - b2^k) / (1 - b1^k) * (b1 / sqrt(b2))^(k - l) * D[k+1 … t]

and m * b1^(t - l), v * b2^(t - l). D and E are two numbers for each step that was the last of some
row. That is AdamW, but for the `eps` of skipped steps, which matters where sqrt(v) is no larger
than `eps` itself, and for rounding: one product in place of many.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from exfam.training.adamw import AdamW, Optimizer
from exfam.training.ranks import Ranks
from exfam.training.tensors import as_array, as_tensor

# Rows from which on a table is stepped by row: with fewer, a step of all takes no longer. Several
# ranks would have to send all of them.
ROWS_FROM, ROWS_FROM_OF_RANKS = 2**16, 2**13
# Rows that are brought up to date at once.
_AT_ONCE = 2**16

Rows = Float[Tensor, "rows *row"]


class _Clock:
    """D, E and (b1 / sqrt(b2))^(t - l) of all steps l since all rows were up to date."""

    def __init__(self) -> None:
        self.numbers = torch.tensor([[1.0], [0.0], [1.0]], dtype=torch.float64)

    @property
    def now(self) -> int:
        """Steps since then."""
        return self.numbers.shape[1] - 1

    def advance(self, *, rate: float, decay: float, fading: float) -> None:
        """Take a step of this `rate` a unit of m / sqrt(v)."""
        kept, moved, faded = self.numbers
        faded *= fading
        kept *= 1 - decay
        moved *= 1 - decay
        moved.add_(faded, alpha=rate)
        self.numbers = torch.cat([self.numbers, self.numbers.new_tensor([[1], [0], [1]])], dim=1)


class RowTable:
    """A parameter with its AdamW moments, each row as its `last` step left it.

    Group number `group` of the optimizer says the rate and the decay of a step.
    """

    def __init__(self, parameter: nn.Parameter, optimizer: Optimizer, *, group: int = 0) -> None:
        self.parameter, self._group = parameter, optimizer.param_groups[group]
        self.first, self.second = (torch.zeros_like(parameter.data) for _ in range(2))
        self.last = torch.zeros(len(parameter), dtype=torch.int32)
        self.n_steps, self._clock = 0, _Clock()
        self._received: list[tuple[Tensor, Tensor]] = []
        self.index, self.gradient = self._gathered()

    def read(self, index: Int[Tensor, "*shape"]) -> Float[Tensor, "*numbers"]:
        """Rows as AdamW would have left them."""
        flat = index.reshape(-1)
        rows = self._up_to_date(flat)[0] if self._clock.now else self.parameter.data[flat]
        return rows.view(*index.shape, *self.parameter.shape[1:])

    def receive(self, index: Int[Tensor, "*shape"], gradient: Float[Tensor, "*numbers"]) -> None:
        """Add to the gradient of these rows."""
        rows = gradient.reshape(-1, *self.parameter.shape[1:])
        self._received.append((index.reshape(-1), rows))

    def clear(self) -> None:
        """Forget gradients."""
        self._received = []

    def collect(self, others: Sequence[tuple[Tensor, Tensor]] | None = None) -> None:
        """Sum up what was received here, or that of all ranks."""
        self._received = self._received if others is None else list(others)
        self.index, self.gradient = self._gathered()

    def _gathered(self) -> tuple[Int[Tensor, "rows"], Rows]:
        if not self._received:
            return self.last.new_zeros(0).long(), self.parameter.data[:0].clone()
        index, where = torch.cat([index for index, _ in self._received]).unique(return_inverse=True)
        total = self.parameter.data.new_zeros(len(index), *self.parameter.shape[1:])
        start = 0
        for _, rows in self._received:
            total.index_add_(0, where[start : start + len(rows)], rows)
            start += len(rows)
        self._received = []
        return index, total

    def step(self) -> None:
        """AdamW's step by the gradient that was collected."""
        group, index, gradient = self._group, self.index, self.gradient
        (b1, b2), rate = group["betas"], group["lr"]
        self.n_steps += 1
        root, mean = (1 - b2**self.n_steps) ** 0.5, 1 - b1**self.n_steps
        rows, first, second = self._up_to_date(index)
        first.lerp_(gradient, 1 - b1)
        second.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        spread = second.sqrt().div_(root).add_(group["eps"])
        decay = rate * group["weight_decay"]
        rows.mul_(1 - decay).addcdiv_(first, spread, value=-rate / mean)
        self._clock.advance(rate=rate * root / mean, decay=decay, fading=b1 / b2**0.5)
        self._write(index, rows, first, second)

    def _up_to_date(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows and their moments after all steps so far, as new tensors."""
        (b1, b2), numbers = self._group["betas"], self._clock.numbers
        rows, first, second = (
            whole.index_select(0, index) for whole in (self.parameter.data, self.first, self.second)
        )
        last = self.last.index_select(0, index).long()
        shape = (-1, *[1] * (rows.ndim - 1))
        kept, moved = (n[last].to(rows.dtype).view(shape) for n in numbers[:2])
        lag = (self._clock.now - last).double().view(shape)
        rows.mul_(kept).sub_(first / second.sqrt().add_(self._group["eps"]) * moved)
        return rows, first.mul_((b1**lag).to(rows.dtype)), second.mul_((b2**lag).to(rows.dtype))

    def _write(self, index: Tensor, *parts: Tensor) -> None:
        wholes = (self.parameter.data, self.first, self.second)
        for whole, part in zip(wholes, parts, strict=True):
            whole.index_copy_(0, index, part)
        self.last[index] = self._clock.now

    def flush(self) -> None:
        """Bring all rows up to date."""
        if not self._clock.now:
            return
        for index in torch.arange(len(self.last)).split(_AT_ONCE):
            self._write(index, *self._up_to_date(index))
        self.last.zero_()
        self._clock = _Clock()

    def state(self) -> dict[str, Tensor]:
        """All that later steps depend on beside the parameter."""
        steps = torch.tensor(self.n_steps)
        moments = {"first": self.first, "second": self.second, "last": self.last}
        return {**moments, "clock": self._clock.numbers, "steps": steps}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Return to such a state."""
        dtype = self.parameter.dtype
        for name in ("first", "second"):
            getattr(self, name).copy_(as_tensor(state[name], dtype))
        self.last.copy_(torch.tensor(state["last"]))
        self._clock.numbers = torch.tensor(state["clock"])
        self.n_steps = int(state["steps"])


class RowTables:
    """The tables of a model that are stepped by row; the optimizer has the other parameters.

    A model names them in `row_tables()`: parameters with a row an item of which training reads a
    few rows, by `rows_of`, and never all. Tables of fewer rows than `ROWS_FROM` are not worth it,
    and neither are those on a GPU, which steps all rows in the time that finding some takes.
    """

    def __init__(self, model: nn.Module, optimizer: Optimizer, *, n_ranks: int = 1) -> None:
        self._tables: dict[str, RowTable] = {}
        self._epoch = -1
        if not isinstance(optimizer, AdamW):
            return
        named: list[nn.Parameter] = getattr(model, "row_tables", list)()
        least = ROWS_FROM if n_ranks == 1 else ROWS_FROM_OF_RANKS
        chosen = {p for p in named if len(p) >= least and p.device.type == "cpu"}
        names = {parameter: name for name, parameter in model.named_parameters()}
        for number, group in enumerate(optimizer.param_groups):
            own = [p for p in group["params"] if p in chosen]
            group["params"] = [p for p in group["params"] if p not in chosen]
            for parameter in own:
                table = RowTable(parameter, optimizer, group=number)
                self._tables[names[parameter]] = table
                # What `rows_of` reads through.
                setattr(parameter, "by_row", table)  # noqa: B010

    @property
    def names(self) -> list[str]:
        """Of the parameters."""
        return list(self._tables)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The tables as parameters, as their last steps left their rows."""
        return [table.parameter for table in self._tables.values()]

    def close(self) -> None:
        """Bring all rows up to date; from now on parameters are read as any others."""
        self.flush()
        for parameter in self.parameters:
            delattr(parameter, "by_row")
        self._tables = {}

    def begin_epoch(self, epoch: int) -> None:
        """Bring all rows up to date, unless the epoch is one that goes on."""
        if epoch != self._epoch:
            self.flush()
        self._epoch = epoch

    def flush(self) -> None:
        """Bring all rows up to date: what reads whole tables, such as validation, needs it."""
        for table in self._tables.values():
            table.flush()

    def clear(self) -> None:
        """Forget gradients."""
        for table in self._tables.values():
            table.clear()

    def collect(self, ranks: Ranks) -> list[float]:
        """Sum up this rank's gradients; their numbers of rows, for the sum over the ranks."""
        for table in self._tables.values():
            table.collect()
        if ranks.size == 1:
            return []
        counts = torch.zeros(len(self._tables), ranks.size)
        for own, table in zip(counts, self._tables.values(), strict=True):
            own[ranks.rank] = len(table.index)
        return counts.flatten().tolist()

    def gradients(self, ranks: Ranks, counts: Sequence[float]) -> list[Tensor]:
        """The gradients of all ranks' rows; `counts` are the sums of what `collect` returned."""
        tables = list(self._tables.values())
        if counts:
            message = torch.cat([torch.empty(0, dtype=torch.uint8), *map(_packed, tables)])
            by_rank = np.array(counts).astype(int).reshape(len(tables), ranks.size).T
            sizes = [_row_size(table) for table in tables]
            received = ranks.gather(message, (by_rank @ sizes).tolist())
            unpacked = [
                list(_unpacked(part, tables, own.tolist()))
                for part, own in zip(received, by_rank, strict=True)
            ]
            for table, *parts in zip(tables, *unpacked, strict=True):
                table.collect(parts)
        return [table.gradient for table in tables]

    def step(self) -> None:
        """AdamW's step by these gradients, which may have been scaled."""
        for table in self._tables.values():
            table.step()

    def state(self) -> dict[str, np.ndarray]:
        """All that later steps depend on beside the parameters."""
        if not self._tables:
            return {}
        tensors = {
            f"{name}.{part}": as_array(tensor)
            for name, table in self._tables.items()
            for part, tensor in table.state().items()
        }
        return tensors | {"epoch": np.array(self._epoch)}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Return to such a state."""
        self._epoch = int(state.get("epoch", self._epoch))
        for name, table in self._tables.items():
            parts = ("first", "second", "last", "clock", "steps")
            table.load_state({part: state[f"{name}.{part}"] for part in parts})


def _row_size(table: RowTable) -> int:
    """Bytes of a row and of its number."""
    parameter = table.parameter
    return 4 + parameter.element_size() * parameter[0].numel()


def _packed(table: RowTable) -> UInt8[Tensor, "bytes"]:
    parts = (table.index.int(), table.gradient.contiguous())
    return torch.cat([part.flatten().view(torch.uint8) for part in parts])


def _unpacked(
    message: UInt8[Tensor, "bytes"], tables: Sequence[RowTable], counts: Sequence[int]
) -> Iterator[tuple[Tensor, Tensor]]:
    start = 0
    for table, count in zip(tables, counts, strict=True):
        stop = start + int(count) * _row_size(table)
        # Fresh memory, since numbers must lie where their size divides the address.
        index, rows = message[start:stop].split([4 * int(count), stop - start - 4 * int(count)])
        shape = (int(count), *table.parameter.shape[1:])
        gradient = rows.clone().view(table.parameter.dtype).view(shape)
        yield index.clone().view(torch.int32).long(), gradient
        start = stop
