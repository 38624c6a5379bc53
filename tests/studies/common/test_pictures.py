"""Pictures of rows: one a task and metric, each figure at its setting."""

from exfam_studies.common import pictures
from exfam_studies.common.rows import Row


def row(model="efa", value=1.0, *, metric="mse", **settings):
    return Row(task="t", model=model, metric=metric, settings=settings, value=value, sd=0.1)


def test_every_metric_of_a_task_has_one_picture(tmp_path):
    rows = [row(k=1), row(k=2, value=2.0), row("bayes", None), row(metric="nats"), row("ridge")]
    rows.append(Row(task="other", model="efa", metric="nats", value=1.0, paper=2.0))
    plotted = {"mse": "k", "nats": None, "crps": None}
    pictures.draw_rows(rows, tmp_path, experiment="x", plotted=plotted)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["x-other-nats.png", "x-t-mse.png", "x-t-nats.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


def test_curves_join_the_rows_of_a_model_by_increasing_setting():
    rows = [
        row(k=5, by="a", low=0.5, value=2.0), row(k=1, by="a", low=0.7),
        row(k=3, by="b", value=4.0), row("ridge"),
    ]  # fmt: skip
    axes = pictures._curves(rows, "k").axes[0]
    lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
    assert lines["efa (a)"] == [[1, 1], [5, 2]] and lines["efa (b)"] == [[3, 4]]
    assert "ridge" in lines and axes.get_xlabel() == "k"
