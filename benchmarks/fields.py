"""Fields: CPU seconds and peak memory of our models by the number of sites, their peers beside.

    python benchmarks/fields.py

A step of a network is forward, backward and AdamW on one map of places drawn evenly over most of
the globe.
Every row is a process of its own, so that its peak memory is its own, the imports' (shown first)
among it. Times are CPU seconds (user + sys) of one thread, after a first step that is not
counted. Kriging and the Gaussian process predict each value of a map from all others; PyKrige
solves one system for each site left out, and is timed on 10 of them. Whole fits need EXFAM_DATA.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from exfam.families import Gaussian
from exfam.fields import FieldEFA, FieldGaussian
from exfam.fields.declarations import FieldNetworkParameters
from exfam.fields.networks.assemble import build_field_network, field_shape
from exfam.fields.networks.climate import fit_climate
from exfam.fields.networks.covariances import fit_gaussian_process, fit_kriging
from exfam.groups import Batch, Groups
from exfam.likelihoods.two_part import TwoPartModel
from exfam_studies.efa.temperature_data import field_splits, read_temperatures

N_NEIGHBORS, N_MAPS, N_LEFT_OUT = 32, 3, 10
FULL = (50, 100, 200, 500, 1000, 2000)
LOCAL = (500, 2000, 5000, 10_000, 20_000)
FEW = (50, 100, 200, 500)
# Attention costs more than what is linear in the sites from about here on.
BASES, BASE_MAPS = (2500, 5000, 10_000, 20_000), 100
LEAST = {"full": 200, "local": 500, "base": 2500}
SECONDS_PER_ROW = 1.5
AFFORDABLE_SECONDS = 30.0
FIT_SECONDS = 60.0

console = Console(highlight=False, width=110)


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def field(n_sites: int, n_maps: int = N_MAPS) -> Groups:
    """Waves over the globe that drift from map to map, and noise."""
    random = np.random.default_rng(0)
    places = np.stack(
        [random.uniform(-60, 60, n_sites), random.uniform(-180, 180, n_sites)], axis=1
    )
    north, east = np.deg2rad(places).T
    drift = 0.3 * np.arange(n_maps)[:, None]
    smooth = np.sin(3 * north + drift) + np.cos(2 * east - drift)
    value = smooth + 0.3 * random.standard_normal(smooth.shape)
    start = np.arange(n_maps) * n_sites
    at_all = np.tile(places, (n_maps, 1))
    return Groups(
        start=start,
        stop=start + n_sites,
        item=np.tile(np.arange(n_sites), n_maps),
        values={"value": value.ravel()},
        attributes={"coordinates": at_all},
        position=at_all,
        group_attributes={"time": np.arange(float(n_maps))},
        vocabulary={"item": np.arange(n_sites)},
    )


def field_efa(groups: Groups, n_neighbors: int | None) -> TwoPartModel:
    network = build_field_network(
        field_shape(groups, lags=0, step=1.0, metric="haversine"),
        FieldNetworkParameters(n_neighbors=n_neighbors),
        climate=fit_climate(groups, kind="site", metric="haversine"),
        family=Gaussian(),
        start=torch.zeros(2),
        generator=torch.Generator().manual_seed(0),
    )
    families = {"value": Gaussian()}
    return TwoPartModel(direction="bidirectional", value_part=network, families=families)


def median_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of a call, after a first one."""
    call()
    spent: list[float] = []
    while not spent or (sum(spent) < SECONDS_PER_ROW and len(spent) < 20):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    return float(np.median(spent))


def training_step(n_sites: int, n_neighbors: int | None) -> float:
    groups = field(n_sites)
    model, batch = field_efa(groups, n_neighbors), groups.pad(np.array([0]))
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        (-model.log_prob(batch).total().mean()).backward()
        optimizer.step()

    return median_seconds(step)


def prediction(n_sites: int) -> float:
    groups = field(n_sites)
    model, batch = field_efa(groups, N_NEIGHBORS).eval(), groups.pad(np.array([0]))
    with torch.inference_mode():
        return median_seconds(lambda: model.value_eta(batch))


def base_fit(n_sites: int) -> float:
    """Of FieldGaussian, all choices made, to maps that are complete."""
    groups = field(n_sites, BASE_MAPS)
    start = time.process_time()
    FieldGaussian().fit(groups)
    return time.process_time() - start


def base_prediction(n_sites: int) -> float:
    """Of one map by FieldGaussian."""
    groups = field(n_sites, BASE_MAPS)
    model = FieldGaussian().fit(groups)
    return median_seconds(lambda: model.predict(groups[:1]))


def left_out(fit: Callable[..., torch.nn.Module], n_sites: int) -> float:
    """Each value of a map given all others, by a part that is fitted already."""
    groups = field(n_sites)
    part = fit(groups, fit_climate(groups, kind="site", metric="haversine"))
    batch: Batch = groups.pad(np.array([0]))
    return median_seconds(lambda: part.eta(batch))  # type: ignore[operator]


def pykrige_left_out(n_sites: int) -> float:
    """All sites of a map, from the time that some of them take."""
    from pykrige.ok import OrdinaryKriging

    groups = field(n_sites, 1)
    (north, east), z = groups.attributes["coordinates"].T, groups.values["value"]
    variogram = {"sill": 1.0, "range": 30.0, "nugget": 0.1}

    def leave_out(i: int) -> None:
        others = np.arange(n_sites) != i
        kriging = OrdinaryKriging(
            east[others],
            north[others],
            z[others],
            variogram_model="exponential",
            variogram_parameters=variogram,
            coordinates_type="geographic",
        )
        kriging.execute("points", east[[i]], north[[i]])

    leave_out(0)
    start = time.process_time()
    for i in range(N_LEFT_OUT):
        leave_out(i)
    return (time.process_time() - start) / N_LEFT_OUT * n_sites


def scikit_learn_fit(n_sites: int) -> float:
    """One map's kernel found by likelihood, as the estimator does it by itself."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    groups = field(n_sites, 1)
    kernel = ConstantKernel() * Matern(length_scale=30.0, nu=1.5) + WhiteKernel(0.1)
    start = time.process_time()
    model = GaussianProcessRegressor(kernel)
    model.fit(groups.attributes["coordinates"], groups.values["value"])
    return time.process_time() - start


def october_fit(lags: int) -> float:
    splits = field_splits(read_temperatures(), lags=lags)
    start = time.process_time()
    FieldEFA(lags=lags, progress=False).fit(splits.train, validation=splits.validation)
    return time.process_time() - start


MEASURES: dict[str, Callable[[int], float]] = {
    "full": lambda n: training_step(n, None),
    "local": lambda n: training_step(n, N_NEIGHBORS),
    "predict": prediction,
    "base": base_fit,
    "predict base": base_prediction,
    "exact Gaussian process, leave-one-out": lambda n: left_out(fit_gaussian_process, n),
    "ordinary kriging, leave-one-out": lambda n: left_out(fit_kriging, n),
    "PyKrige, leave-one-out (peer)": pykrige_left_out,
    "scikit-learn GaussianProcessRegressor, fit (peer)": scikit_learn_fit,
    "october": october_fit,
}


def measured(what: str, size: int) -> tuple[float, float]:
    """CPU seconds and peak GB of one row, from a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--row", what, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak


def exponent(seconds: dict[int, float], *, least: int) -> float:
    """Slope of log CPU seconds on log sites."""
    sites = [n for n in seconds if n >= least]
    spent = [seconds[n] for n in sites]
    return float(np.polyfit(np.log(sites), np.log(spent), 1)[0])


def show_sizes(what: str, sizes: tuple[int, ...], *, title: str, most: float) -> None:
    table = Table(title=title)
    for name in ("sites", "CPU s", "peak GB"):
        table.add_column(name, justify="right")
    seconds = {}
    for n in sizes:
        seconds[n], peak = measured(what, n)
        table.add_row(f"{n:,}", f"{seconds[n]:.3f}", f"{peak:.2f}")
    console.print(table)
    slope = exponent(seconds, least=LEAST[what])
    verdict = "no more than" if slope <= most else "MORE than"
    console.print(f"CPU s ~ sites^{slope:.2f} from {LEAST[what]} on, {verdict} {most:g}\n")


def show_peers() -> None:
    table = Table(title="other ways to predict each value of a map from all others: CPU s")
    table.add_column("way")
    for n in FULL:
        table.add_column(f"{n:,}", justify="right")
    ways = [name for name in MEASURES if "," in name]
    for way in ways:
        if way.startswith("PyKrige") and find_spec("pykrige") is None:
            table.add_row(way, "not installed")
            continue
        last, cells = 0.0, []
        for n in FULL if way.startswith("exact") else FEW:
            # Cubes of the sites: guess before starting.
            if 8 * last > AFFORDABLE_SECONDS and "peer" in way:
                cells.append(f"> {AFFORDABLE_SECONDS:g}")
                break
            last = measured(way, n)[0]
            cells.append(f"{last:.3f}")
        table.add_row(way, *cells)
    console.print(table)


def show_fits() -> None:
    if not os.environ.get("EXFAM_DATA"):
        console.print("whole fits: skipped, EXFAM_DATA is not set")
        return
    table = Table(title="whole fits: October temperatures of 44 cities, 6 years, 4 to choose by")
    for name in ("lags", "CPU s", "peak GB", f"below {FIT_SECONDS:g} s"):
        table.add_column(name, justify="right")
    for lags in (0, 1):
        seconds, peak = measured("october", lags)
        below = "yes" if seconds < FIT_SECONDS else "NO"
        table.add_row(str(lags), f"{seconds:.1f}", f"{peak:.2f}", below)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--row", nargs=2)
    row = parser.parse_args().row
    if row:
        torch.set_num_threads(1)
        print(json.dumps([MEASURES[row[0]](int(row[1])), peak_gb()]))
        return
    console.print(f"peak memory of the imports alone: {peak_gb():.2f} GB\n")
    show_sizes("full", FULL, title="a step, all sites attend to all", most=2.0)
    title = f"a step, each attends to its {N_NEIGHBORS} nearest"
    show_sizes("local", LOCAL, title=title, most=1.1)
    seconds, peak = measured("predict", LOCAL[-1])
    console.print(f"prediction of a map of {LOCAL[-1]:,} sites: {seconds:.2f} s, {peak:.2f} GB\n")
    title = f"FieldGaussian, fit to {BASE_MAPS} maps, all choices made"
    show_sizes("base", BASES, title=title, most=1.1)
    seconds, peak = measured("predict base", BASES[-1])
    console.print(f"prediction of a map of {BASES[-1]:,} sites: {seconds:.2f} s, {peak:.2f} GB\n")
    show_peers()
    show_fits()


if __name__ == "__main__":
    main()
