"""From the plan of a fit to its base."""

import torch

from exfam.fields.base.courses import Clock
from exfam.fields.base.fit import FieldBase, fit_base, sites_of
from exfam.fields.base.folds import Maps
from exfam.fields.base.frame import Frame, fit_frame
from exfam.fields.base.panel import panel_of
from exfam.fields.plan import FieldPlan


def maps_of(plan: FieldPlan, *, period: float) -> tuple[Maps, Frame]:
    """The training maps of a standardized plan as tables, and the frame of their sites."""
    shape = plan.shape
    places = torch.from_numpy(plan.places)
    if len(shape.origin):  # as models see them
        places = (places - torch.tensor(shape.origin, dtype=torch.float64)) / shape.length
    frame = fit_frame(places, metric=shape.metric)
    points = frame.points(places, metric=shape.metric)
    panel = panel_of(plan.train, n_lags=shape.lags, step=shape.step)
    sites = sites_of(points, frame, n_lags=shape.lags)
    return Maps(panel, Clock(period, shape.step), sites), frame


def fit_field_base(plan: FieldPlan, *, period: float) -> tuple[FieldBase, Frame]:
    """The base of the training maps of a standardized plan."""
    maps, frame = maps_of(plan, period=period)
    return fit_base(maps), frame
