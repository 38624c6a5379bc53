"""Maps, series and sites of a field, and where to measure next."""

import numpy as np
from jaxtyping import Float

from exfam.checks import ExfamError
from exfam.fields.stations import StationPlan, station_plan
from exfam.groups import Groups
from exfam.plots import crps_by_site, field_map, histogram, plan_map, series_band
from exfam.report.fields.field_material import FieldMaterial, values_of
from exfam.report.page import Facts, Part, Picture, Section, SideBySide, TableData, left_out
from exfam.report.words import clean, figure, percent, quantity

_MAPS, _SITES, _SERIES, _NEXT = "Stations", "Site by site", "Series", "Where to measure next"
_LEVEL = 0.8
_MOST_TIMES, _MOST_IN_SERIES, _NARROW_TIMES = 120, 6_000, 40
_N_PLACES, _LISTED, _BEST = 300, 12, 5
# Places listed are at least this share of the area's diagonal apart.
_APART = 0.12
_GRID, _WIDTH = 22, 4.8


def station_section(material: FieldMaterial) -> Section:
    """What the data hold, and the last map as it is predicted between the stations."""
    maps, model = material.maps, material.model
    if maps is None:
        return left_out(_MAPS, "no data were given.")
    value = values_of(maps)
    sites = len(model.site_coordinates_)
    facts = [
        ("maps", f"{len(maps):,}"),
        ("sites of the model", f"{sites:,}"),
        ("values", f"{int((~np.isnan(value)).sum()):,}"),
        ("missing", percent(float(np.isnan(value).mean()))),
    ]
    if times := names_of_maps(maps):
        facts.append(("from – to", f"{clean(times[0], most=16)} – {clean(times[-1], most=16)}"))
    drawn = Picture(
        f"Values of “{material.column}”",
        histogram(value[~np.isnan(value)], label=material.column, of="values"),
        f"Mean {figure(float(np.nanmean(value)), 2)}, standard deviation "
        f"{figure(float(np.nanstd(value)), 2)}.",
    )
    parts: list[Part] = [Facts(facts), *_last_map(material, maps), drawn]
    return Section(_MAPS, parts=parts)


def names_of_maps(maps: Groups) -> list[str]:
    """What the times of maps are called."""
    names = maps.group_names
    times = maps.group_attributes["time"] if names is None else names
    return [str(time).removesuffix("T00:00:00.000000000")[:19] for time in times.tolist()]


def _last_map(material: FieldMaterial, maps: Groups) -> list[Picture]:
    """Predictive means and standard deviations between the sites, or at them."""
    model, shape = material.model, material.model.shape_
    if shape.n_dims != 2:
        return []
    filled = np.flatnonzero(
        np.bincount(_map_of(maps), ~np.isnan(values_of(maps)), minlength=len(maps))
    )
    last = maps[filled[-1:]]
    own = last.elements()
    places = last.attributes["coordinates"][own]
    seen = places[~np.isnan(values_of(last))]
    try:
        at = _grid(model.site_coordinates_)
        prediction = model.predict_dist(last, at=at)
    except ExfamError:  # one that knows its sites alone, or has covariates
        at, prediction = places, model.predict_dist(last)
    mean, sd = prediction.center, np.nan_to_num(prediction.sd)
    style = "sites" if at is places else "surface"
    drawn = [
        field_map(at, mean, sd, observed=seen, metric=shape.metric, style=style, stacked=stacked)
        for stacked in (False, True)
    ]
    when = clean(names_of_maps(last)[0], most=30)
    caption = (
        f"“{material.column}” of {when}, predicted from the stations that reported (rings). The "
        "second map says how unsure each place is: the standard deviation."
    )
    return [Picture("The last map", drawn[0], caption, narrow=drawn[1])]


def _map_of(maps: Groups) -> np.ndarray:
    return np.repeat(np.arange(len(maps)), maps.stop - maps.start)


def _grid(sites: Float[np.ndarray, "sites 2"]) -> Float[np.ndarray, "places 2"]:
    """A regular grid over the sites and a little more."""
    low, high = sites.min(0), sites.max(0)
    margin = 0.03 * np.where(high > low, high - low, 1.0)
    axes = [np.linspace(low[k] - margin[k], high[k] + margin[k], _GRID) for k in range(2)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)


def site_section(material: FieldMaterial) -> Section:
    """Leave-one-out scores of each site, the worst first."""
    if material.scored is None:
        return left_out(_SITES, "no data were given to compare predictions with.")
    of_site = _by_site(material)
    if not len(of_site):
        return left_out(_SITES, "no known site has a value.")
    codes = of_site[:, 0].astype(int)
    order = np.argsort(-of_site[:, 2], kind="stable")
    rows = [
        [
            material.site_name(int(of_site[k, 0])),
            f"{int(of_site[k, 1]):,}",
            figure(of_site[k, 2]),
            figure(of_site[k, 3]),
            percent(of_site[k, 4], 0),
        ]
        for k in order[:_LISTED]
    ]
    table = TableData(
        ["site", "values", "CRPS", "bias", "inside 80 %"],
        rows,
        words=["site"],
        title="Sites that are predicted worst",
        shares={"CRPS": (of_site[order[:_LISTED], 2] / of_site[:, 2].max()).tolist()},
        caption="CRPS: error of the predicted distribution in the unit of the value. Bias: mean of "
        "predicted less observed values. Inside: share of values in their 80 % interval.",
    )
    text = ["Each site predicted from the others: its own value of the map is left out."]
    parts: list[Part] = [table]
    if material.model.shape_.n_dims == 2:
        places = material.model.site_coordinates_[codes]
        names = [material.site_name(int(code), most=24) for code in codes]
        metric = material.model.shape_.metric
        drawn = crps_by_site(places, of_site[:, 2], names, metric=metric, width=_WIDTH)
        caption = "The larger and darker, the worse: mean CRPS of each site."
        parts = [SideBySide([Picture("Error by site", drawn, caption), table])]
    return Section(_SITES, text=text, parts=parts)


def _by_site(material: FieldMaterial) -> Float[np.ndarray, "sites 5"]:
    """Of each known site with values: code, number of values, CRPS, bias, share inside."""
    value, prediction = material.value, material.prediction
    there = ~np.isnan(value) & (material.site >= 0)
    crps = prediction.crps(value)[there]
    bias = (prediction.center - value)[there]
    inside = prediction.inside(value, _LEVEL)[there]
    site = material.site[there]
    codes, back, n = np.unique(site, return_inverse=True, return_counts=True)
    means = [np.bincount(back, part, len(codes)) / n for part in (crps, bias, inside)]
    return np.stack([codes.astype(float), n.astype(float), *means], axis=1)


def series_section(material: FieldMaterial) -> Section:
    """The last maps at a few sites, with what is predicted of them from the others."""
    if material.maps is None:
        return left_out(_SERIES, "no data were given.")
    n = max(2, min(_MOST_TIMES, int(_MOST_IN_SERIES / max(material.maps.lengths.mean(), 1.0))))
    recent = material.maps[max(0, len(material.maps) - n) :]
    if len(recent) < 2:
        return left_out(_SERIES, "there is one map alone.")
    prediction, value = material.model.predict_dist(recent), values_of(recent)
    assert recent.item is not None
    site = recent.item[recent.elements()]
    times = names_of_maps(recent)
    pictures = []
    for code, what in _sites_to_show(material, site, value):
        at = np.flatnonzero(site == code)
        index = _map_of(recent)[at]
        low, high = prediction.interval(_LEVEL)
        series = np.full((4, len(recent)), np.nan)
        series[:, index] = np.stack([value, prediction.center, low, high])[:, at]
        drawn = [
            series_band(times[-k:], *series[:, -k:], unit=material.column, width=width)
            for k, width in ((len(times), 9.4), (_NARROW_TIMES, 4.7))
        ]
        title = f"{material.site_name(int(code))} ({what})"
        pictures.append(Picture(title, drawn[0], narrow=drawn[1]))
    text = [
        f"The last {quantity(len(recent), 'map')} ({_NARROW_TIMES} on narrow screens) of three "
        f"sites. Each value is predicted from the other sites and from maps before; shaded is its "
        f"{percent(_LEVEL, 0)} interval."
    ]
    return Section(_SERIES, text=text, parts=pictures)


def _sites_to_show(
    material: FieldMaterial, site: np.ndarray, value: np.ndarray
) -> list[tuple[int, str]]:
    """The sites of least, middle and largest error among those with values in the last maps."""
    of_site = _by_site(material)
    n = np.bincount(site[(site >= 0) & ~np.isnan(value)], minlength=int(of_site[:, 0].max()) + 1)
    able = of_site[n[of_site[:, 0].astype(int)] >= 2]
    order = able[np.argsort(able[:, 2], kind="stable"), 0].astype(int)
    if len(order) < 3:
        return [(int(code), "as all") for code in order]
    middle = int(order[len(order) // 2])
    return [
        (int(order[0]), "predicted best"),
        (middle, "in the middle"),
        (int(order[-1]), "predicted worst"),
    ]


def next_station(material: FieldMaterial) -> StationPlan | None:
    """Where one more station would help most; None where it cannot be computed."""
    try:
        return station_plan(material.model, n_places=_N_PLACES)
    except ExfamError:
        return None


def next_section(material: FieldMaterial, plan: StationPlan | None) -> Section:
    """A map of how much each place would help, and the best few."""
    if plan is None:
        return left_out(
            _NEXT, "this needs a model with a base, sites at several places and no covariates."
        )
    shape = material.model.shape_
    best = _best_places(plan)
    names = ["latitude", "longitude"] if shape.metric == "haversine" else ["east", "north"]
    names = names if shape.n_dims == 2 else [f"axis {k + 1}" for k in range(shape.n_dims)]
    rows = [[*(figure(x, 3) for x in plan.candidates[k]), percent(plan.share[k], 2)] for k in best]
    table = TableData(
        [*names, "lowers"], rows, title="Best places for one more station", marked=[0],
        caption="By what share the mean predictive variance of the map falls. Of places that are "
        "near each other only the best is listed.",
    )  # fmt: skip
    text = [
        f"One more station at the best place lowers the mean predictive variance between the "
        f"stations by {percent(plan.share[plan.best], 2)}: the mean standard deviation is "
        f"{figure(float(plan.variance**0.5))} without it. Exact under the Gaussian of the model's "
        "base, if all stations report. The model does not know where one can build a station: "
        "exfam.station_plan takes your own candidates."
    ]
    parts: list[Part] = [table]
    if shape.n_dims == 2:
        sites = material.model.site_coordinates_
        drawn = plan_map(plan.candidates, plan.share, sites, metric=shape.metric, width=_WIDTH)
        parts = [SideBySide([Picture("One more station", drawn), table])]
    return Section(_NEXT, text=text, parts=parts)


def _best_places(plan: StationPlan) -> list[int]:
    """The best candidates, none near a better one."""
    span = plan.candidates.max(0) - plan.candidates.min(0)
    least = _APART * float(np.linalg.norm(span))
    chosen: list[int] = []
    for k in np.argsort(-plan.share, kind="stable").tolist():
        apart = np.linalg.norm(plan.candidates[chosen] - plan.candidates[k], axis=1)
        if not len(chosen) or apart.min() > least:
            chosen.append(k)
        if len(chosen) == _BEST:
            break
    return chosen
