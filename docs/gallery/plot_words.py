"""
Words: which are used alike
===========================

Vectors of words learned from text, here from simulated sentences about three topics: words that
are used alike get vectors that point the same way. The context vectors are reflections of the word
vectors, which halves the numbers to learn.
"""

import matplotlib.pyplot as plt
import numpy as np

from exfam import SkipGram
from exfam.plots import item_map

TOPICS = {
    "kitchen": "pan knife oven salt butter dough spoon",
    "garden": "rake soil seed rose hedge spade worm",
    "office": "desk printer memo stapler meeting chair phone",
}
random = np.random.default_rng(0)
text = []
for topic in random.choice(list(TOPICS), 3000):
    first, second, third = random.choice(TOPICS[topic].split(), 3)
    text.append(f"in the {topic} we saw the {first} and the {second} near a {third}")
model = SkipGram(dim=16, epochs=3, subsample=0.01, tie="reflection", threads=1, progress=False).fit(
    text
)
print(model.vectors_.most_similar("knife", k=3))

# %%
# The plane in which the vectors differ most:

words = [word for topic, others in TOPICS.items() for word in [topic, *others.split()]]
vectors = np.stack([model.vectors_[word] for word in words])
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
left, scale, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
plt.figure(item_map(left[:, :2] * scale[:2], words, width=6.4, height=4.2))
plt.show()
