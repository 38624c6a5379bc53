"""What sentence vectors know of language: ten probing tasks, made of sentences and parses.

Source: Conneau et al. (2018), "What you can cram into a single vector", section 2.
"""
