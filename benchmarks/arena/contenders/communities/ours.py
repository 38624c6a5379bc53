"""exfam's estimators of communities, with their default settings."""

from collections.abc import Callable
from typing import Any

import pandas as pd
from benchmarks.arena.communities.data import CommunityData, Sites
from benchmarks.arena.kind import Contender, Fitted

from exfam.tables.community import Community


def default(**parameters: Any) -> Callable[[CommunityData, int], Fitted]:
    """Fitted to training and validation sites together, which it cross-validates."""

    def fit(data: CommunityData, seed: int) -> Fitted:
        both = data.both
        model = Community(seed=seed, blocks=data.blocks, **parameters)
        model.fit(both.covariates, pd.DataFrame(both.present, columns=list(data.species)))

        def predict(sites: Sites) -> Any:
            shown = pd.DataFrame(sites.shown(), columns=list(data.species))
            return model.predict_proba(sites.covariates, shown)

        return Fitted(predict, settings={"parameters": parameters, "gain": str(model.gain_)})

    return fit


CONTENDERS = {
    "community": Contender(label="Community()", fit=default(), ours=True, is_random=True),
    "community-base": Contender(
        label="Community(correction=False)", fit=default(correction=False), ours=True
    ),
}
