"""A network that corrects natural parameters from exactly zero: four members that share weights."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor, nn

from exfam.layers import Dropout, RandomPart, linear, normal
from exfam.training.adamw import AdamW
from exfam.training.optimizer import clip_gradients

_MEMBERS, _HIDDEN, _DROPOUT = 4, 128, 0.25
_FARTHEST = 5.0
_LEARNING_RATE, _DECAY, _CLIP = 2e-3, 0.05, 1.0
_WARM_UP, _LAST_SHARE = 30, 0.1
_EPOCHS, _PATIENCE, _FEWEST_STEPS = 60, 8, 8
_SMALLEST_BATCH, _BATCH, _BATCHES = 32, 256, 16
_SLOWEST = 0.99
# How often rows of training are shown complete, and how much complete rows count in the choice of
# the epoch.
_COMPLETE = 0.5
_COMPLETE_HELD = 0.6


class ResidualNetwork(RandomPart):
    """What is added to the outputs of a linear base: exactly 0 before training.

    Members differ in how they scale inputs and hidden units, and share all other weights.
    """

    def __init__(self, n_features: int, n_outputs: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.n_features, self.n_outputs = n_features, n_outputs
        ones = 1 + normal(_MEMBERS, 1, n_features, scale=0.5, generator=generator)
        self.input_scale = nn.Parameter(ones)
        self.wide = linear(n_features, _HIDDEN, generator=generator)
        self.wide_scale = nn.Parameter(self._signs(generator))
        self.deep = linear(_HIDDEN, _HIDDEN, generator=generator)
        self.deep_scale = nn.Parameter(self._signs(generator))
        self.head = nn.Parameter(torch.zeros(_MEMBERS, _HIDDEN, n_outputs))
        self.bias = nn.Parameter(torch.zeros(_MEMBERS, 1, n_outputs))
        self.dropout = Dropout(_DROPOUT)

    @staticmethod
    def _signs(generator: torch.Generator) -> Float[Tensor, "members 1 hidden"]:
        return 1 + normal(_MEMBERS, 1, _HIDDEN, scale=0.2, generator=generator)

    def forward(
        self, x: Float32[Tensor, "rows features"]
    ) -> Float32[Tensor, "members rows outputs"]:
        x = x.clamp(-_FARTHEST, _FARTHEST).expand(_MEMBERS, -1, -1)
        hidden = _scaled(x, self.wide, self.wide_scale, self.input_scale).relu_()
        hidden = _scaled(hidden, self.deep, self.deep_scale).relu_()
        return torch.baddbmm(self.bias, self.dropout(hidden), self.head)

    @torch.inference_mode()
    def correction(
        self, features: Float[np.ndarray, "rows features"]
    ) -> Float[np.ndarray, "rows outputs"]:
        """What is added to the outputs, the mean over members."""
        self.eval()
        added = self(torch.from_numpy(features.astype(np.float32)))
        mean: np.ndarray = added.mean(0).double().numpy()
        return mean


def _scaled(
    x: Float32[Tensor, "members rows inputs"],
    layer: nn.Linear,
    output_scale: Float32[Tensor, "members 1 outputs"],
    input_scale: Float32[Tensor, "members 1 inputs"] | None = None,
) -> Float32[Tensor, "members rows outputs"]:
    """The layer's outputs with inputs and outputs scaled by each member for itself.

    Scales go into the weights, of which there are fewer numbers than of inputs and outputs.
    """
    weight = layer.weight.T * output_scale
    if input_scale is not None:
        weight = weight * input_scale.mT
    return torch.baddbmm(layer.bias * output_scale, x, weight)


class Loss:
    """Nats of each row at some outputs: of labels, or of numbers by location and log scale."""

    def __init__(self, y: Float[np.ndarray, "rows"], *, n_labels: int | None, df: float) -> None:
        self.is_label, self.df = n_labels is not None, df
        self.y = torch.from_numpy(y.astype(np.int64 if self.is_label else np.float32))

    def __call__(
        self, outputs: Float32[Tensor, "members rows outputs"], rows: Tensor
    ) -> Float32[Tensor, "members rows"]:
        y = self.y[rows]
        if self.is_label:
            index = y.expand(len(outputs), -1)[..., None]
            return -outputs.log_softmax(-1).gather(-1, index)[..., 0]
        location, log_scale = outputs.unbind(-1)
        z = (y - location) * (-log_scale).exp()
        return (self.df + 1) / 2 * torch.log1p(z.square() / self.df) + log_scale


@dataclass(frozen=True, eq=False)
class Views:
    """The same rows several times, the first complete, the others with cells hidden.

    `offset`: the outputs of the base
    """

    features: Float32[Tensor, "views rows features"]
    offset: Float32[Tensor, "views rows outputs"]


def as_views(
    features: Sequence[Float[np.ndarray, "rows features"]],
    offset: Sequence[Float[np.ndarray, "rows outputs"]],
) -> Views:
    """Views of rows, in single precision."""
    stacked = [np.stack(parts).astype(np.float32) for parts in (features, offset)]
    return Views(torch.from_numpy(stacked[0]), torch.from_numpy(stacked[1]))


@dataclass(frozen=True, eq=False)
class Course:
    """What the training of one network goes through: rows, which are held out, and weights."""

    views: Views
    loss: Loss
    weight: Float32[Tensor, "rows"]
    is_held: Bool[Tensor, "rows"]
    held_views: Views


def fit_network(course: Course, *, seed: int) -> ResidualNetwork:
    """A network trained on the rows that are not held out, as of its best epoch on those that are.

    Before the first step it adds nothing, and may stay so.
    """
    generator = torch.Generator().manual_seed(seed)
    n_features, n_outputs = course.views.features.shape[-1], course.views.offset.shape[-1]
    network = ResidualNetwork(n_features, n_outputs, generator=generator)
    network.dropout.generator = generator
    rows = torch.nonzero(~course.is_held | course.is_held.all())[:, 0]
    size = max(_SMALLEST_BATCH, min(_BATCH, len(rows) // _BATCHES))
    n_epochs = _EPOCHS
    total = n_epochs * -(-len(rows) // size)
    trainer = _Trainer(network, course, total_steps=total, generator=generator)
    best, least, since, steps = copy.deepcopy(network), trainer.held_nats(), 0, 0
    for _ in range(n_epochs):
        order = rows[torch.randperm(len(rows), generator=generator)]
        for batch in order.split(size):
            trainer.step(batch)
            steps += 1
        if steps < _FEWEST_STEPS:
            continue
        nats = trainer.held_nats()
        since += 1
        if nats < least:
            best, least, since = copy.deepcopy(trainer.average), nats, 0
        if since >= _PATIENCE:
            break
    return best


class _Trainer:
    """Steps of AdamW, and a running average of the weights."""

    def __init__(
        self,
        network: ResidualNetwork,
        course: Course,
        *,
        total_steps: int,
        generator: torch.Generator,
    ) -> None:
        self.network, self.course, self.generator = network, course, generator
        self.average = copy.deepcopy(network)
        matrices = [network.wide.weight, network.deep.weight, network.head]
        owned = {id(parameter) for parameter in matrices}
        others = [p for p in network.parameters() if id(p) not in owned]
        groups = [
            {"params": matrices, "weight_decay": _DECAY},
            {"params": others, "weight_decay": 0.0},
        ]
        self.optimizer = AdamW(groups, lr=_LEARNING_RATE)
        self.n_steps, self.total = 0, max(total_steps, 1)
        self.parameters = tuple[Tensor, ...](network.parameters())
        self.averages = tuple[Tensor, ...](self.average.parameters())
        self.held = torch.nonzero(course.is_held)[:, 0]

    def step(self, rows: Tensor) -> None:
        views, n_views = self.course.views, len(self.course.views.features)
        self.network.train()
        view = torch.randint(n_views, (len(rows),), generator=self.generator)
        complete = torch.rand(len(rows), generator=self.generator) < _COMPLETE
        view[complete] = 0
        outputs = self.network(views.features[view, rows]) + views.offset[view, rows]
        weight = self.course.weight[rows]
        loss = (self.course.loss(outputs, rows) * weight).mean() / weight.mean().clamp_min(1e-12)
        for parameter in self.parameters:
            parameter.grad = None
        loss.backward()
        clip_gradients([p.grad for p in self.parameters if p.grad is not None], _CLIP)
        rise = min(1.0, (self.n_steps + 1) / _WARM_UP)
        fall = 1 - (1 - _LAST_SHARE) * self.n_steps / self.total
        for group in self.optimizer.param_groups:
            group["lr"] = _LEARNING_RATE * rise * fall
        self.optimizer.step()
        self._follow()

    @torch.no_grad()
    def _follow(self) -> None:
        self.n_steps += 1
        keep = min(_SLOWEST, (self.n_steps + 1) / (self.n_steps + 10))
        torch._foreach_lerp_(self.averages, self.parameters, 1 - keep)

    @torch.inference_mode()
    def held_nats(self) -> float:
        """Of the held rows, those complete and those with cells hidden, by the average weights."""
        self.average.eval()
        views, weight = self.course.held_views, self.course.weight[self.held]
        nats = []
        for features, offset in zip(views.features, views.offset, strict=True):
            outputs = (self.average(features) + offset).mean(0, keepdim=True)
            own = self.course.loss(outputs, self.held)[0]
            nats.append(float((own * weight).sum() / weight.sum()))
        return _COMPLETE_HELD * nats[0] + (1 - _COMPLETE_HELD) * float(np.mean(nats[1:]))
