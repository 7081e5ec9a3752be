"""The evaluations in PyTorch, each in the form that suits it best: on whole arrays where it can be.

`FORMS[evaluation][function]` takes the input of an evaluation and returns a call without arguments,
and what makes JSON of its result, as the functions here do.
"""

import functools
import importlib
import importlib.util
import itertools
import math

import numpy as np

from benchmarks.gradbench import ba, gmm, lstm, particle
from benchmarks.gradbench.descent import ENOUGH

#: PyTorch where it is installed: benchmarks are listed without it.
torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None

FORMS = {}


def form(evaluation, *names):
    """Register a function of (name, input), which returns a call and what writes its result."""

    def register(make):
        FORMS[evaluation] = {name: functools.partial(make, name) for name in names}
        return make

    return register


def tensor(array):
    """Return numbers as a tensor of float64."""
    return torch.as_tensor(np.asarray(array, float))


def gradients(f, arguments, data=()):
    """Return a call that computes the gradients of a scalar function."""

    def call():
        leaves = [a.detach().requires_grad_() for a in arguments]
        return torch.autograd.grad(f(*leaves, *data), leaves)

    return call


def listed(result):
    """Return a tensor as nested lists."""
    return result.tolist()


def first_listed(results):
    """Return the only one of the gradients as nested lists."""
    return results[0].tolist()


def value_or_gradient(name, f, arguments, data=()):
    """Return the forms of a scalar function, or of its gradient with respect to one argument."""
    if name in ("gradient", "jacobian"):
        return gradients(f, arguments, data), first_listed
    return lambda: f(*arguments, *data), float


# --- mixtures, clusters, sums ---------------------------------------------------------------------


def log_posterior(alpha, mu, q, l, x, gamma, m):  # noqa: E741 (the names of the evaluation)
    """Return the log-posterior of a mixture."""
    n, d = x.shape
    k = len(alpha)
    columns, rows = np.triu_indices(d, 1)
    diagonal = torch.exp(q)
    factors = torch.diag_embed(diagonal).index_put(
        (slice_of(k), torch.as_tensor(rows), torch.as_tensor(columns)), l
    )
    scaled = torch.einsum("kij,nkj->nki", factors, x[:, None] - mu)
    logs = alpha + q.sum(1) - 0.5 * (scaled**2).sum(2)
    likelihood = torch.logsumexp(logs, 1).sum() - n * torch.logsumexp(alpha, 0)
    freedom = d + m + 1
    gammas = torch.special.multigammaln(torch.tensor(0.5 * freedom, dtype=torch.float64), d)
    normalization = freedom * d * math.log(gamma / math.sqrt(2.0)) - gammas
    prior = m * q.sum() - 0.5 * gamma**2 * ((diagonal**2).sum() + (l**2).sum())
    return likelihood - 0.5 * n * d * math.log(2.0 * math.pi) + prior + k * normalization


def slice_of(k):
    """Return indices of all of k matrices, for two index arrays beside it."""
    return torch.arange(k)[:, None]


@form("gmm", "objective", "jacobian")
def gmm_call(name, given):
    """The log-posterior and its gradients."""
    arguments = [tensor(given[one]) for one in gmm.NAMES]
    arguments[-1] = arguments[-1].reshape(len(arguments[0]), -1)
    data = tensor(given["x"]), given["gamma"], given["m"]
    if name == "objective":
        return lambda: log_posterior(*arguments, *data), float
    return gradients(log_posterior, arguments, data), lambda found: gmm.write(found)


def cost(centroids, points):
    """Return the sum of the squared distances of points from their nearest centroids."""
    squares = (points**2).sum(1)[:, None] + (centroids**2).sum(1)
    return (squares - 2.0 * points @ centroids.T).min(1).values.sum()


@form("kmeans", "cost", "dir")
def kmeans_call(name, given):
    """The cost, and Newton's step by a product of the Hessian with ones."""
    points, centroids = tensor(given["points"]), tensor(given["centroids"])
    if name == "cost":
        return lambda: cost(centroids, points), float

    def direction():
        leaf = centroids.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(cost(leaf, points), leaf, create_graph=True)
        (second,) = torch.autograd.grad(gradient.sum(), leaf)
        return gradient.detach() / second

    return direction, listed


def log_sum_exp(x):
    """Return log Σ exp(x) without overflow."""
    largest = x.max()
    return largest + (x - largest).exp().sum().log()


@form("lse", "primal", "gradient")
def lse_call(name, given):
    """The logarithm of a sum of exponentials."""
    return value_or_gradient(name, log_sum_exp, [tensor(given["x"])])


def distance(x, n):
    """Return half the squared distance of a polynomial from the sign."""
    t = torch.linspace(-1.0, 1.0, n, dtype=torch.float64)
    powers = t[:, None] ** torch.arange(len(x))
    return 0.5 * ((torch.sign(t) - powers @ x) ** 2).sum()


@form("llsq", "primal", "gradient")
def llsq_call(name, given):
    """The distance of a polynomial from the sign."""
    return value_or_gradient(name, distance, [tensor(given["x"])], (given["n"],))


# --- loops ----------------------------------------------------------------------------------------


def loss(main, extra, state, sequence):
    """Return the loss of a recurrent network."""
    layers, bits = len(state) // 2, sequence.shape[1]
    weights, biases = main[::2].reshape(layers, 4, bits), main[1::2].reshape(layers, 4, bits)
    hidden, cells = list(state[::2]), list(state[1::2])
    total = torch.zeros((), dtype=torch.float64)
    for t in range(len(sequence) - 1):
        x = sequence[t] * extra[0]
        for i in range(layers):
            w, b, h = weights[i], biases[i], hidden[i]
            forget, leave = torch.sigmoid(x * w[0] + b[0]), torch.sigmoid(x * w[2] + b[2])
            entry = torch.sigmoid(h * w[1] + b[1])
            cells[i] = cells[i] * forget + entry * torch.tanh(h * w[3] + b[3])
            hidden[i] = x = leave * torch.tanh(cells[i])
        y = x * extra[1] + extra[2]
        total = total + (sequence[t + 1] * (y - torch.log(2.0 + torch.exp(y).sum()))).sum()
    return -total / (bits * (len(sequence) - 1))


@form("lstm", "objective", "jacobian")
def lstm_call(name, given):
    """The loss and its gradients."""
    main, extra, state, sequence = map(tensor, lstm.read(given))
    if name == "objective":
        return lambda: loss(main, extra, state, sequence), float
    return gradients(loss, (main, extra), (state, sequence)), lstm.write


def solution(x, steps):
    """Return the solution of a chain of differential equations."""

    def slope(y):
        return torch.cat((x[:1], x[1:] * y[:-1]))

    h, y = 2.0 / steps, torch.zeros_like(x)
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + 0.5 * h * k1)
        k3 = slope(y + 0.5 * h * k2)
        k4 = slope(y + h * k3)
        y = y + h * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0
    return y


@form("ode", "primal", "gradient")
def ode_call(name, given):
    """The solution, and the gradient of its last element."""
    x, steps = tensor(given["x"]), given["s"]
    if name == "primal":
        return lambda: solution(x, steps), listed
    return gradients(lambda x: solution(x, steps)[-1], [x]), first_listed


@form("det", "primal", "gradient")
def det_call(name, given):
    """The determinant as the sum over all permutations: a recursion has a call for every factor."""
    n = given["ell"]
    order = torch.tensor(list(itertools.permutations(range(n))))
    swaps = sum((order[:, i] > order[:, j]).int() for i in range(n) for j in range(i + 1, n))
    signs, rows = (1 - 2 * (swaps % 2)).double(), torch.arange(n)

    def determinant(flat):
        return (signs * flat.reshape(n, n)[rows, order].prod(1)).sum()

    return value_or_gradient(name, determinant, [tensor(given["A"])])


# --- Jacobians ------------------------------------------------------------------------------------


def reprojection_error(camera, point, weight, feature):
    """Return the weighted distance of one projected point from its feature."""
    rotation, x = camera[:3], point - camera[3:6]
    angle = torch.sqrt((rotation**2).sum())
    axis = rotation / angle
    across, along = torch.linalg.cross(axis, x), (axis * x).sum() * (1.0 - torch.cos(angle))
    seen = x * torch.cos(angle) + across * torch.sin(angle) + axis * along
    flat = seen[:2] / seen[2]
    square = (flat**2).sum()
    distorted = flat * (1.0 + camera[9] * square + camera[10] * square**2)
    return weight * (distorted * camera[6] + camera[7:9] - feature)


@form("ba", "objective", "jacobian")
def ba_call(name, given):
    """The errors, and their Jacobian in blocks, one per observation."""
    cameras, points, weights, features, seen_by, seen = ba.read(given)
    at, of = torch.as_tensor(seen_by), torch.as_tensor(seen)
    camera, point, weight, feature = map(tensor, (cameras, points, weights, features))
    errors = torch.func.vmap(reprojection_error)
    blocks = torch.func.vmap(torch.func.jacrev(reprojection_error, (0, 1, 2)))
    if name == "objective":
        return lambda: (errors(camera[at], point[of], weight, feature), 1.0 - weight**2), (
            ba.write_errors
        )

    def jacobian():
        by_camera, by_point, by_weight = blocks(camera[at], point[of], weight, feature)
        found = torch.cat((by_camera, by_point, by_weight[:, :, None]), 2).numpy()
        sizes = len(cameras), len(points), len(weights)
        return ba.sparse(found, -2.0 * weight.numpy(), sizes, seen_by, seen)

    return jacobian, ba.write_jacobian


def matrices(rows):
    """Return matrices of rows of tensors with an element per matrix."""
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def local_turns(theta, bones):
    """Return the rotations of every bone."""
    zeros = theta.new_zeros(3)
    angles = [zeros] * bones
    for finger in range(5):
        first, k = 2 + 4 * finger, 6 + 4 * finger
        angles[first] = torch.cat((theta[k : k + 2], zeros[:1]))
        angles[first + 1] = torch.cat((theta[k + 2 : k + 3], zeros[:2]))
        angles[first + 2] = torch.cat((theta[k + 3 : k + 4], zeros[:2]))
    a, c, b = torch.stack(angles).T
    zero, one = torch.zeros_like(a), torch.ones_like(a)
    x = [[one, zero, zero], [zero, a.cos(), -a.sin()], [zero, a.sin(), a.cos()]]
    y = [[b.cos(), zero, -b.sin()], [zero, one, zero], [b.sin(), zero, b.cos()]]
    z = [[c.cos(), -c.sin(), zero], [c.sin(), c.cos(), zero], [zero, zero, one]]
    turns = matrices(z) @ matrices(y) @ matrices(x)
    with_zeros = torch.cat((turns, torch.zeros_like(turns[:, :, :1])), 2)
    last = theta.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(bones, 1, 4)
    return torch.cat((with_zeros, last), 1)


def skin(theta, bases, inverses, positions, weights, parents, mirrored):
    """Return where the vertices of the skin are."""
    relative, placed = bases @ local_turns(theta, len(parents)), []
    for bone, parent in enumerate(parents):
        placed.append(relative[bone] if parent == -1 else placed[parent] @ relative[bone])
    moved = (torch.stack(placed) @ inverses)[:, :3]
    found = torch.einsum("bij,vj,vb->vi", moved, positions, weights)
    if mirrored:
        found = found * theta.new_tensor([-1.0, 1.0, 1.0])
    angle = torch.sqrt((theta[:3] ** 2).sum())
    x, y, z = theta[:3] / angle
    zero = torch.zeros_like(x)
    across = matrices([[zero, -z, y], [z, zero, -x], [-y, x, zero]])
    eye = torch.eye(3, dtype=torch.float64)
    turn = eye + angle.sin() * across + (1.0 - angle.cos()) * (across @ across)
    return found @ turn.T + theta[3:6]


@form("ht", "objective", "jacobian")
def ht_call(name, given):
    """The distances, and their Jacobian by forward mode, all columns at once."""
    data, model = given["data"], given["data"]["model"]
    names = ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
    described = (*(tensor(model[one]) for one in names), model["parents"], model["is_mirrored"])
    points, theta = tensor(data["points"]), tensor(given["theta"])
    corresponding = torch.as_tensor(data["correspondences"])

    def distances(theta):
        return (points - skin(theta, *described)[corresponding]).ravel()

    def surface_distances(parameters):
        vertices = skin(parameters[2:], *described)
        u, v = (us + parameters[:2]).T[:, :, None]
        a, b, c = (vertices[corner] for corner in corners)
        return (points - (u * a + v * b + (1.0 - u - v) * c)).ravel()

    f = distances
    if len(given["us"]):
        us, corners = tensor(given["us"]), torch.as_tensor(model["triangles"])[corresponding].T
        f, theta = surface_distances, torch.cat((theta.new_zeros(2), theta))
    if name == "objective":
        return lambda: f(theta), listed
    return lambda: torch.func.jacfwd(f)(theta), listed


# --- derivatives of derivatives -------------------------------------------------------------------


def argmin(f, gradient, x):
    """Return where a descent from `x` ends."""
    value, slope, step, accepted = f(x), gradient(x), 1e-5, 0
    while torch.sqrt((slope**2).sum()) > ENOUGH:
        if accepted == 10:
            step, accepted = 2.0 * step, 0
            continue
        further = x - step * slope
        if torch.sqrt(((x - further) ** 2).sum()) <= ENOUGH:
            return x
        reached = f(further)
        if reached < value:
            x, value, slope, accepted = further, reached, gradient(further), accepted + 1
        else:
            step, accepted = 0.5 * step, 0
    return x


def by_graph(f):
    """Return the gradient by a graph that is differentiated in turn."""

    def gradient(x):
        leaf = x if x.requires_grad else x.detach().requires_grad_()
        return torch.autograd.grad(f(leaf), leaf, create_graph=True)[0]

    return gradient


def forward(f):
    """Return the gradient by forward mode."""

    def gradient(x):
        along = torch.eye(len(x), dtype=x.dtype)
        return torch.stack([torch.func.jvp(f, (x,), (e,))[1] for e in along])

    return gradient


def forward_of_graphs(f):
    """Return the gradient by forward mode, of a function that differentiates by graphs."""
    dual = torch.autograd.forward_ad

    def gradient(x):
        tangents = []
        for e in torch.eye(len(x), dtype=x.dtype):
            with dual.dual_level():
                tangents.append(dual.unpack_dual(f(dual.make_dual(x, e))).tangent)
        return torch.stack(tangents)

    return gradient


def modes(name):
    """Return the transforms of the outer and the inner function: the fastest that nest."""
    outer = forward_of_graphs if name == "fr" else forward
    if name[0] == "r":

        def outer(f):
            return lambda x: by_graph(f)(x).detach()

    return outer, by_graph if name[1] == "r" else forward


@form("saddle", "rr", "rf", "fr", "ff")
def saddle_call(name, given):
    """A saddle point."""
    start, (outer, inner) = tensor(given["start"]), modes(name)

    def height(x, y):
        return (x**2).sum() - (y**2).sum()

    def highest(x):
        slope = inner(lambda y: height(x, y))
        return argmin(lambda y: -height(x, y), lambda y: -slope(y), start)

    def largest(x):
        return height(x, highest(x))

    def call():
        x = argmin(largest, outer(largest), start)
        return torch.cat((x, highest(x)))

    return call, lambda found: listed(found.detach())


@form("particle", "rr", "rf", "fr", "ff")
def particle_call(name, given):
    """The control of a charged particle."""
    w, (outer, inner) = tensor([given["w"]]), modes(name)
    origin, ahead, fixed = tensor([0.0, 8.0]), tensor([0.75, 0.0]), tensor([10.0, 0.0])

    def miss(w):
        charges = torch.cat((fixed[:1], 10.0 - w)), fixed
        slope = inner(lambda x: sum(1.0 / torch.sqrt(((x - c) ** 2).sum()) for c in charges))
        x, velocity = origin, ahead
        while True:
            further = x + particle.STEP * velocity
            if further[1] <= 0.0:
                return (x - x[1] / velocity[1] * velocity)[0] ** 2
            x, velocity = further, velocity - particle.STEP * slope(x)

    return lambda: argmin(miss, outer(miss), w)[0].detach(), float
