"""Models and training loops of people who write their own."""

import tapegrad.math as math
import tapegrad.numpy as np

FEATURES = np.array([[0.5, -1.0], [1.5, 0.3], [-0.4, 0.8], [0.9, 1.1], [-1.2, -0.6], [0.1, 0.2]])
LABELS = np.array([0, 1, 2, 1, 0, 2])


def softmax(z):
    e = np.exp(z - np.max(z, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def network_loss(layers):
    """Cross entropy of a network given as a list of (weights, bias)."""
    h = FEATURES
    for W, b in layers[:-1]:
        h = np.tanh(np.dot(h, W) + b)
    W, b = layers[-1]
    p = softmax(h @ W + b)
    picked = p[np.arange(len(LABELS)), LABELS]
    penalty = sum(np.sum(W**2) for W, _ in layers)
    accuracy = np.mean(np.argmax(p, axis=1) == LABELS)
    print(f"loss {-np.mean(np.log(picked)):.3f} accuracy {accuracy:.2f}")
    return -np.mean(np.log(picked)) + 0.01 * penalty


def tuned_training(settings):
    """A training loop with momentum, decay and clipping; its loss as a function of the settings."""
    weights = {"w": np.zeros(2), "b": np.zeros(1)}
    velocity = {name: np.zeros_like(value) for name, value in weights.items()}
    target = (LABELS == 1).astype(float)
    rate = settings["rate"]
    losses = []
    for epoch in range(12):
        z = FEATURES @ weights["w"] + weights["b"]
        p = 1 / (1 + np.exp(-z))
        losses.append(-np.mean(target * np.log(p) + (1 - target) * np.log(1 - p)))
        error = (p - target) / len(target)
        grads = {"w": FEATURES.T @ error, "b": np.array([error.sum()])}
        for name in weights:
            g = grads[name]
            norm = np.linalg.norm(g)
            if norm > 0.3:
                g = g * (0.3 / norm)
            velocity[name] *= settings["momentum"]
            velocity[name] -= rate * g
            weights[name] += velocity[name]
        if epoch % 4 == 3:
            rate *= 0.8
    return losses[-1] + 0.1 * np.mean(losses)


def recurrent_loss(theta):
    """A gated cell over a sequence; states collected in a list."""
    W = theta[:4].reshape(2, 2)
    U = theta[4:8].reshape(2, 2)
    b = theta[8:]
    h, states = np.zeros(2), []
    for x in FEATURES:
        z = 1.0 / (1.0 + np.exp(-(W @ x + b)))
        candidate = np.tanh(U.dot(h) + x)
        h = (1 - z) * h + z * candidate
        states.append(h)
    H = np.stack(states)
    return np.mean((H[1:, 0] - FEATURES[:-1, 1]) ** 2) + np.abs(H).max()


def warping_distance(series):
    """Dynamic time warping: a table filled cell by cell."""
    reference = [0.0, 0.8, 1.0, 0.4, -0.5]
    n, m = len(series), len(reference)
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = (series[i - 1] - reference[j - 1]) ** 2
            D[i, j] = cost + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return np.sqrt(D[n, m])


def hidden_markov(logits):
    """Forward algorithm and Viterbi on the same chain, in logarithms."""
    A = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    emit = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    seen = [0, 2, 1, 0, 0, 2]
    alpha = np.array([0.5, 0.5]) * emit[:, seen[0]]
    best = np.log(alpha)
    loglik = 0.0
    for o in seen[1:]:
        alpha = (alpha @ A) * emit[:, o]
        total = alpha.sum()
        loglik += np.log(total)
        alpha /= total
        best = np.max(best[:, None] + np.log(A), axis=0) + np.log(emit[:, o])
    return loglik + 0.5 * np.max(best)


def stationary_reward(logits):
    """Power iteration to the stationary distribution of a chain, then a mean reward."""
    P = np.zeros((3, 3))
    for i in range(3):
        row = np.exp(logits[i] - np.max(logits[i]))
        P[i, :] = row / row.sum()
    pi = np.ones(3) / 3
    change = 1.0
    while change > 1e-15:
        new = pi @ P
        change = np.abs(new - pi).sum()
        pi = new
    return np.dot(pi, [1.0, -0.5, 2.0])


def clustering_cost(centres):
    """One Lloyd step by np.add.at, then the cost of the moved centres."""
    centres = np.reshape(centres, (3, 2))
    distances = ((FEATURES[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    nearest = distances.argmin(axis=1)
    soft = np.exp(-distances[np.arange(len(FEATURES)), nearest])
    sums = np.zeros((3, 2))
    np.add.at(sums, nearest, soft[:, None] * FEATURES)
    weights = np.bincount(nearest, weights=soft, minlength=3)
    moved = np.where(weights[:, None] > 0, sums / np.maximum(weights, 1e-9)[:, None], centres)
    return np.sum((FEATURES - moved[nearest]) ** 2) + 0.1 * np.sum(centres**2)


TREE = {
    "feature": 0, "at": 0.3, "sharpness": 4.0,
    "left": {"value": 0},
    "right": {
        "feature": 1, "at": 0.0, "sharpness": 2.0,
        "left": {"value": 1},
        "right": {"value": 2},
    },
}  # fmt: skip


def tree_output(node, x, leaves):
    if "value" in node:
        return leaves[node["value"]]
    gate = 1 / (1 + math.exp(-node["sharpness"] * (x[node["feature"]] - node["at"])))
    if gate < 1e-3:
        return tree_output(node["left"], x, leaves)
    right = tree_output(node["right"], x, leaves)
    return (1 - gate) * tree_output(node["left"], x, leaves) + gate * right


def boosted_error(leaves):
    """Recursion through nested dicts, a loss with a slope on each side (pinball)."""
    total = 0.0
    for x, y in zip(FEATURES, LABELS):
        r = y - tree_output(TREE, x, leaves)
        total += 0.8 * r if r >= 0 else -0.2 * r
    return total / len(FEATURES)


def embedding_score(flat):
    """Rows of a table looked up by words; counts by a dict."""
    table = np.asarray(flat, dtype=np.float64).reshape(4, 2)
    vocabulary = {"sun": 0, "rain": 1, "wind": 2, "snow": 3}
    sentences = ["sun sun wind", "rain wind snow", "snow"]
    vectors = []
    for sentence in sentences:
        ids = [vocabulary[word] for word in sentence.split()]
        vectors.append(table[ids].mean(axis=0))
    V = np.vstack(vectors)
    norms = np.sqrt((V**2).sum(axis=1))
    cosine = (V @ V.T) / np.outer(norms, norms)
    return np.triu(cosine, k=1).sum()
