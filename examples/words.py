"""Words: which are alike?"""

import numpy as np

from exfam import SkipGram

rng = np.random.default_rng(0)
topics = ["pan knife oven salt butter dough".split(), "rake soil seed rose hedge spade".split()]
text = [" ".join(rng.choice(topics[topic], 6)) for topic in rng.integers(0, 2, 2000)]
words = SkipGram(dim=8, tie="reflection", subsample=0.0, threads=1).fit(text[:1800])
print(words.vectors_.most_similar("rose", k=3))
print(f"{words.score(text[1800:]):.2f} nats")
