"""Inputs of the evaluations, of the forms and about the sizes of GradBench's own."""

import numpy as np

#: Evaluation → its functions, as the evaluation asks for them.
EVALUATIONS = {
    "gmm": ("objective", "jacobian"),
    "kmeans": ("cost", "dir"),
    "lse": ("primal", "gradient"),
    "llsq": ("primal", "gradient"),
    "lstm": ("objective", "jacobian"),
    "ba": ("objective", "jacobian"),
    "ht": ("objective", "jacobian"),
    "det": ("primal", "gradient"),
    "ode": ("primal", "gradient"),
    "saddle": ("rr", "rf", "fr", "ff"),
    "particle": ("rr", "rf", "fr", "ff"),
}


def gmm(d, k, n=1000, m=0):
    """A mixture of k normal distributions in d dimensions, and n observations."""
    rng, below = np.random.default_rng(1), d * (d - 1) // 2
    return {
        "x": rng.normal(size=(n, d)).tolist(),
        "mu": rng.uniform(size=(k, d)).tolist(),
        "q": rng.normal(size=(k, d)).tolist(),
        "l": rng.normal(size=(k, below)).tolist(),
        "alpha": rng.normal(size=k).tolist(),
        **{"d": d, "k": k, "n": n, "m": m, "gamma": 1.0},
    }


def kmeans(k, n, d=8):
    """Points, the last of which are centroids, so that each is the nearest one of some point."""
    points = np.random.default_rng(2).random((n, d))
    return {"points": points.tolist(), "centroids": points[-k:].tolist()}


def lse(n):
    """Numbers of a wide range."""
    return {"x": np.random.default_rng(3).uniform(-100.0, 100.0, n).tolist()}


def llsq(n, m=128):
    """Coefficients of a polynomial, and the number of points."""
    return {"x": np.random.default_rng(4).random(m).tolist(), "n": n}


def lstm(layers, count, bits=14):
    """Parameters of a network, and a sequence of patterns."""
    rng = np.random.default_rng(5)
    return {
        "main_params": rng.random((2 * layers, 4 * bits)).tolist(),
        "extra_params": rng.random((3, bits)).tolist(),
        "state": rng.random((2 * layers, bits)).tolist(),
        "sequence": rng.integers(0, 2, (count, bits)).tolist(),
    }


def ba(n, m, p):
    """One camera and one point, which GradBench repeats, and the numbers of observations."""
    rng = np.random.default_rng(6)
    return {
        **{"n": n, "m": m, "p": p, "w": 0.7},
        "cam": rng.normal(size=11).tolist(),
        "x": (rng.normal(size=3) + 3.0).tolist(),
        "feat": rng.normal(size=2).tolist(),
    }


def ht(points, vertices=544, surface=False):
    """A hand of 22 bones, a skin, and points that correspond to vertices or to triangles."""
    rng, bones = np.random.default_rng(7), 22
    placed = rng.normal(size=(2, bones, 4, 4))
    placed[:, :, 3] = [0.0, 0.0, 0.0, 1.0]
    weights = rng.random((vertices, bones)) * (rng.random((vertices, bones)) < 0.2)
    homogeneous = np.column_stack((rng.normal(size=(vertices, 3)), np.ones(vertices)))
    model = {
        "bone_count": bones,
        "bone_names": [f"bone {i}" for i in range(bones)],
        "parents": [-1, *(i - 1 if i % 4 != 2 else 1 for i in range(1, bones))],
        "base_relatives": (0.4 * placed[0]).tolist(),
        "inverse_base_absolutes": placed[1].tolist(),
        "base_positions": homogeneous.tolist(),
        "weights": weights.tolist(),
        "triangles": rng.integers(0, vertices, (2 * vertices, 3)).tolist(),
        "is_mirrored": False,
    }
    data = {
        "model": model,
        "correspondences": rng.integers(0, vertices, points).tolist(),
        "points": rng.normal(size=(points, 3)).tolist(),
    }
    us = rng.random((points, 2)).tolist() if surface else []
    return {"theta": (0.5 * rng.normal(size=26)).tolist(), "data": data, "us": us}


def det(ell):
    """A matrix, row after row."""
    return {"A": np.random.default_rng(8).random(ell * ell).tolist(), "ell": ell}


def ode(n, s):
    """Coefficients of the equations, and the number of steps."""
    return {"x": np.random.default_rng(9).random(n).tolist(), "s": s}


def saddle(start=(1.0, 1.0)):
    """Where every descent begins."""
    return {"start": list(start)}


def particle(w=0.0):
    """Where the descent begins."""
    return {"w": w}


#: Evaluation → the inputs that are timed, by what they are called.
TIMED = {
    "gmm": {"d=2, k=5": gmm(2, 5), "d=10, k=25": gmm(10, 25)},
    "kmeans": {"k=10, n=1000": kmeans(10, 1000), "k=100, n=10000": kmeans(100, 10_000)},
    "lse": {"n=2500": lse(2500), "n=160000": lse(160_000)},
    "llsq": {"n=128": llsq(128), "n=4096": llsq(4096)},
    "lstm": {"layers=2, count=1024": lstm(2, 1024)},
    "ba": {"p=200": ba(10, 100, 200)},
    "ht": {"points=100": ht(100), "points=100, surface": ht(100, surface=True)},
    "det": {"ell=5": det(5), "ell=7": det(7)},
    "ode": {"n=1000, s=10": ode(1000, 10), "n=1000, s=100": ode(1000, 100)},
    "saddle": {"start=(1, 1)": saddle()},
    "particle": {"w=0": particle()},
}
