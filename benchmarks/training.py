"""CPU seconds of a training step and of a fit; an ensemble one by one or in one batched step.

    python benchmarks/training.py

CPU seconds (user + sys) of one thread. A step is everything from padding the batch to AdamW's
update; a fit also holds its validations. The batched step is a prototype that lives here alone:
members' parameters stacked, the forward pass under `torch.func.vmap`, one backward pass for all,
each member's gradient clipped by its own norm, all members on the same batches.
"""

import copy
import os
import time

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from exfam.efa.networks.assemble import EFASettings, build_efa
from exfam.efa.networks.factor_network import LatentFactorSettings, build_latent_factor_values
from exfam.estimator.schema import Schema
from exfam.families import Gaussian
from exfam.groups import Batch, Groups
from exfam.likelihoods.two_part import Likelihood, TwoPartModel
from exfam.simulators import simulate_ratings
from exfam.training.batching import epoch_batches
from exfam.training.optimizer import TrainingSettings, make_optimizer
from exfam.training.steps import fit
from exfam_studies.efa.movielens_splits import movielens_items

N_MEMBERS, N_EPOCHS, CLIP = 4, 5, 1.0
SECONDS_PER_CELL = 6.0
WORTH_IT = 1.5

console = Console(highlight=False, width=110)


class Loss(nn.Module):
    """Minus the log-likelihood of a batch, as a forward pass."""

    def __init__(self, model: TwoPartModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> Tensor:
        return Likelihood(self.model.direction)(self.model, batch)[0]


def efa(schema: Schema, seed: int, *, direction: str = "bidirectional") -> TwoPartModel:
    """The default network: static, d=32, 2 heads, 2 pre-norm layers, relative encoding."""
    settings = EFASettings(direction, items=not schema.values, values=bool(schema.values))
    return build_efa(schema, settings, generator=torch.Generator().manual_seed(seed))


def latent_factor(schema: Schema, seed: int) -> TwoPartModel:
    part = build_latent_factor_values(
        schema.n_items or 0,
        schema.families,
        LatentFactorSettings(),
        generator=torch.Generator().manual_seed(seed),
    )
    return TwoPartModel(direction="bidirectional", value_part=part, families=schema.families)


def show_fits() -> None:
    groups = simulate_ratings(10_000, seed=0)
    train, validation = groups[:5625], groups[5625:7500]
    schema = Schema.of(train, families={"value": Gaussian(scale=1.0)})
    table = Table(
        title=f"fits on simulated ratings: {len(train):,} users of 5 ratings, "
        f"{N_EPOCHS} epochs of batches of 64"
    )
    for header in ("model", "parameters", "steps", "CPU s a fit", "CPU ms a step"):
        table.add_column(header, justify="left" if header == "model" else "right")
    makers = [("latent factor (peer)", latent_factor, 1), ("EFA", efa, 1)]
    for name, make, n_members in [*makers, (f"EFA, {N_MEMBERS} in turn", efa, N_MEMBERS)]:
        start, n_steps = time.process_time(), 0
        for seed in range(n_members):
            model = make(schema, seed)
            settings = TrainingSettings(max_epochs=N_EPOCHS, patience=N_EPOCHS, seed=seed)
            fit(
                model,
                objective=Likelihood(model.direction),
                train=train,
                validation=validation,
                settings=settings,
                progress=False,
            )
            n_steps += N_EPOCHS * -(-len(train) // settings.batch_size)
        spent = time.process_time() - start
        size = n_members * sum(p.numel() for p in model.parameters())
        cells = (f"{size:,}", f"{n_steps:,}", f"{spent:.2f}", f"{1e3 * spent / n_steps:.2f}")
        table.add_row(name, *cells)
    console.print(table)


class InTurn:
    """Members trained one after the other."""

    def __init__(self, members: list[TwoPartModel]) -> None:
        self.losses = [Loss(copy.deepcopy(member)) for member in members]
        settings = TrainingSettings(clip=CLIP)
        self.optimizers = [make_optimizer(loss, settings) for loss in self.losses]

    def step(self, batch: Batch) -> None:
        for loss, optimizer in zip(self.losses, self.optimizers, strict=True):
            optimizer.zero_grad(set_to_none=True)
            (loss(batch) / batch.n_targets).backward()
            nn.utils.clip_grad_norm_(loss.parameters(), CLIP)
            optimizer.step()

    def first(self) -> Tensor:
        """The first member's parameters, end to end."""
        return torch.cat([p.detach().flatten() for p in self.losses[0].parameters()])


class Together:
    """Members trained in one batched step."""

    def __init__(self, members: list[TwoPartModel]) -> None:
        losses = [Loss(copy.deepcopy(member)) for member in members]
        self.parameters, self.buffers = stack_module_state(losses)
        self.loss = copy.deepcopy(losses[0])  # its own tensors are never read
        settings = TrainingSettings()
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
        )

    def step(self, batch: Batch) -> None:
        def member(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
            return functional_call(self.loss, (parameters, buffers), (batch,))

        self.optimizer.zero_grad(set_to_none=True)
        losses = vmap(member, randomness="different")(self.parameters, self.buffers)
        (losses.sum() / batch.n_targets).backward()
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        norm = sum(g.flatten(1).square().sum(1) for g in gradients).sqrt()
        factor = (CLIP / (norm + 1e-6)).clamp_max(1.0)
        for gradient in gradients:
            gradient.mul_(factor.view(-1, *[1] * (gradient.ndim - 1)))
        self.optimizer.step()

    def first(self) -> Tensor:
        """The first member's parameters, end to end."""
        return torch.cat([p[0].detach().flatten() for p in self.parameters.values()])


def seconds_a_member_step(ensemble: InTurn | Together, batches: list[Batch]) -> float:
    ensemble.step(batches[0])
    n_steps, start = 0, time.process_time()
    while n_steps == 0 or time.process_time() - start < SECONDS_PER_CELL:
        for batch in batches:
            ensemble.step(batch)
        n_steps += len(batches)
    return (time.process_time() - start) / n_steps / N_MEMBERS


def movielens_groups() -> tuple[Groups, str]:
    if os.environ.get("EXFAM_DATA"):
        return movielens_items().train, "MovieLens items"
    random = np.random.default_rng(0)
    lengths = np.clip(np.round(random.gamma(2.0, 7.9, size=480)), 1, 44).astype(np.int64)
    stop = np.cumsum(lengths)
    item = random.integers(0, 50, stop[-1])
    vocabulary = {"item": np.arange(50)}
    groups = Groups(start=stop - lengths, stop=stop, item=item, vocabulary=vocabulary)
    return groups, "simulated MovieLens shapes (EXFAM_DATA is not set)"


def show_ensembles() -> None:
    table = Table(title=f"ensemble of {N_MEMBERS}: CPU ms a step of one member")
    for header in (
        "data",
        "direction",
        "in turn",
        "together",
        "times faster",
        "first member's diff.",
    ):
        table.add_column(header, justify="left" if header in ("data", "direction") else "right")
    ratings = simulate_ratings(2_000, seed=0)
    rated = Schema.of(ratings, families={"value": Gaussian(scale=1.0)})
    movies, name = movielens_groups()
    cases = [
        (name, movies, Schema.of(movies, families={}), "bidirectional"),
        (name, movies, Schema.of(movies, families={}), "causal"),
        ("simulated ratings", ratings, rated, "bidirectional"),
    ]
    for label, groups, schema, direction in cases:
        members = [efa(schema, seed, direction=direction) for seed in range(N_MEMBERS)]
        generator = np.random.default_rng(0)
        batches = [
            groups.pad(index) for index in epoch_batches(groups, batch_size=64, generator=generator)
        ]
        difference = agreement(members, batches[:3])
        ways = (InTurn(members), Together(members))
        in_turn, together = (seconds_a_member_step(way, batches) for way in ways)
        ratio = in_turn / together
        cells = (f"{1e3 * in_turn:.2f}", f"{1e3 * together:.2f}", f"{ratio:.2f}")
        table.add_row(label, direction, *cells, f"{difference:.0e}")
    console.print(table)
    console.print(f"Training members together is called worth it from {WORTH_IT} times faster on.")


def agreement(members: list[TwoPartModel], batches: list[Batch]) -> float:
    """Largest difference of the first member's parameters after some steps of either way."""
    in_turn, together = InTurn(members), Together(members)
    for batch in batches:
        in_turn.step(batch)
        together.step(batch)
    return float((in_turn.first() - together.first()).abs().max())


def main() -> None:
    torch.set_num_threads(1)
    show_fits()
    show_ensembles()


if __name__ == "__main__":
    main()
