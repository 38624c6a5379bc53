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
# All pairs of words at once, near ones dark: each topic is a square, and its name belongs to it.

words = [word for topic, others in TOPICS.items() for word in [topic, *others.split()]]
cosine = np.array([[model.vectors_.similarity(a, b) for b in words] for a in words])
figure, axes = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
picture = axes.imshow(cosine, cmap="Blues", vmin=0, vmax=1)
axes.set_xticks(range(len(words)), words, rotation=90)
axes.set_yticks(range(len(words)), words)
figure.colorbar(picture, label="cosine")
plt.show()
