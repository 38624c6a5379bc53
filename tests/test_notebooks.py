"""Three notebooks run from top to bottom: figures once, progress as text, and no warning."""

import nbclient
import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from house.sources import ROOT

NOTEBOOKS = sorted((ROOT / "tests" / "notebooks").glob("*.py"))


def as_notebook(path):
    """Cells begin with `# %%` and their title."""
    cells = path.read_text(encoding="utf-8").split("# %% ")[1:]
    titles, sources = zip(*(cell.split("\n", 1) for cell in cells), strict=True)
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source.strip()) for source in sources]
    )
    return notebook, titles


def kinds(outputs):
    """The kinds of content that a cell shows, one set for each output."""
    return [set(output.get("data", {})) for output in outputs]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """One process for all of them, since to start it costs most: each finds no name in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", "default")
        patch.delenv("MPLBACKEND", raising=False)  # which notebooks set themselves
        manager, client = start_new_kernel(
            cwd=str(tmp_path_factory.mktemp("notebooks")),
            extra_arguments=["--HistoryManager.enabled=False"],
        )
    client.allow_stdin = False
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_each_figure_once_its_progress_and_no_warning(path, kernel):
    notebook, titles = as_notebook(path)
    notebook.cells[0].source = f"%reset -f\n{notebook.cells[0].source}"
    run = nbclient.NotebookClient(notebook, timeout=300, km=kernel[0])
    run.kc = kernel[1]
    run.execute()
    for cell, title in zip(notebook.cells, titles, strict=True):
        assert not [out for out in cell.outputs if out.get("name") == "stderr"], cell.outputs
        written = [out.get("text", out.get("data", {}).get("text/plain")) for out in cell.outputs]
        assert not any("Warning" in text for text in written), written
        images = [content for content in kinds(cell.outputs) if "image/png" in content]
        assert len(images) == (title == "figure"), (title, kinds(cell.outputs))
        if title == "frame":
            assert "text/html" in kinds(cell.outputs)[-1]
    fitted = notebook.cells[0].outputs
    assert "fitted." in fitted[-1]["data"]["text/html"]
    progress = [output["data"]["text/plain"] for output in fitted[:-1] if "data" in output]
    assert any("100%" in text and " s" in text for text in progress), progress
