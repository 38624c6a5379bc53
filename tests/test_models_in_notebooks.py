"""Models as notebooks show them, of every class there is."""

import html
import time

import pytest
from sklearn import config_context
from sklearn.base import clone

from every_estimator import case_of
from exfam import EFA, Marginal, load
from exfam.estimator.registry import REGISTRY
from exfam.estimator.view import fit_rows


@pytest.mark.parametrize("kind", REGISTRY)
def test_a_model_shows_what_its_fit_kept_and_shows_it_again_when_loaded(kind, tmp_path):
    model = case_of(kind).make()
    assert "fitted." not in model._repr_html_() and "sk-" in model._repr_html_()
    case = case_of(kind)
    model.fit(*case.given, **case.also)
    rows = fit_rows(model)
    assert rows["data"] and all(n > 0 for n in model.data_counts_.values())
    assert rows["took"] and model.fit_seconds_ > 0
    start = time.process_time()
    page = model._repr_html_()
    assert time.process_time() - start < 0.3, "a view computes nothing"
    assert f"<strong>{type(model).__name__}</strong>, fitted." in page
    text = html.unescape(page)
    for lines in rows.values():
        assert all(line in text for line in lines)
    model.save(tmp_path / "model")
    assert fit_rows(load(tmp_path / "model")) == rows


@pytest.mark.parametrize("kind", REGISTRY)
def test_what_one_sees_of_a_model_is_what_one_calls(kind):
    model = case_of(kind).make()
    names = dir(model)
    assert not [name for name in names if name.startswith("set_") and name.endswith("_request")]
    assert {"fit", "save", "load", *model.get_params()} <= set(names)
    assert not {"declared", "check_rules", "get_metadata_routing"} & set(names)


def test_metadata_routing_works_though_it_is_not_listed():
    with config_context(enable_metadata_routing=True):
        model = EFA().set_fit_request(sample_weight=True)
        for routing in (model.get_metadata_routing(), clone(model).get_metadata_routing()):
            assert routing.fit.requests["sample_weight"] is True
            assert routing.fit.requests["checkpoint"] is None
    with pytest.raises(AttributeError, match="Marginal has no attribute 'set_partial_fit_request'"):
        _ = Marginal().set_partial_fit_request


def test_hostile_names_are_text():
    hostile = "<script>alert('x')</script>"
    model = EFA(group=hostile, item="item", max_epochs=1, progress=False)
    model.fit({hostile: [0, 0, 1, 1, 2, 2] * 4, "item": list("abcbca") * 4})
    bundle = model._repr_mimebundle_()
    assert "<script>alert" not in bundle["text/html"] and "&lt;script&gt;" in bundle["text/html"]
    with config_context(display="text"):
        assert set(model._repr_mimebundle_()) == {"text/plain"}
