"""Equations 6 and 7 written out as loops, one number at a time."""


def locality_by_loops(weights: list[list[float]]) -> float:
    n = len(weights)
    rows = [sum(weights[i][j] * 2.0 ** -abs(i - j) for j in range(n)) for i in range(n)]
    return sum(rows) / n


def symmetry_by_loops(weights: list[list[float]], *, average: str = "micro") -> float:
    n, rows = len(weights), []
    for i in range(n):
        apart = [
            abs(weights[i][i - k] - weights[i][i + k]) for k in range(1, min(i, n - 1 - i) + 1)
        ]
        if not apart:
            continue
        least, span = min(apart), max(apart) - min(apart)
        rows.append([(x - least) / span if span > 1e-5 * max(weights[i]) else 0.0 for x in apart])
    if average == "macro":
        return 1.0 - sum(sum(row) / len(row) for row in rows) / len(rows)
    return 1.0 - sum(map(sum, rows)) / sum(map(len, rows))
