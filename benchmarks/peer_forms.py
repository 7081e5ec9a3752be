"""The workloads in other systems, each in the form that suits the system best.

`FORMS[system][workload]` is a builder: it imports the system, prepares the data and returns a call
without arguments that computes (value, list of gradients). Nothing is imported before that.
"""

import functools

import numpy as np

from benchmarks import workload_definitions as definitions

#: System → workload → builder of a call that returns (value, gradients).
FORMS = {"PyTorch": {}, "JAX": {}, "autograd": {}, "CasADi": {}}

#: The name under which each system is imported.
MODULES = {"PyTorch": "torch", "JAX": "jax", "autograd": "autograd", "CasADi": "casadi"}


def form(system, differentiate):
    """Register a builder of (function, arguments); `differentiate` makes the call out of them."""

    def register(build):
        name = build.__name__.split("_", 1)[1]

        def prepared():
            function, arguments = build()
            return differentiate(function, arguments)

        FORMS[system][name] = prepared
        return build

    return register


def by_torch(function, arguments):
    """Return a call that differentiates a function of tensors by PyTorch, on one thread."""
    import torch

    torch.set_num_threads(1)

    def call():
        tensors = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arguments]
        value = function(*tensors)
        value.backward()
        return value.item(), [t.grad.numpy() for t in tensors]

    return call


def by_jax(function, arguments):
    """Return a call of the jitted value and gradient of a function of JAX arrays."""
    jax = import_jax()
    compiled = jax.jit(jax.value_and_grad(function, argnums=tuple(range(len(arguments)))))

    def call():
        value, gradients = compiled(*arguments)
        return float(value), [np.asarray(g) for g in gradients]

    return call


def import_jax():
    """Return jax with 64-bit numbers switched on."""
    import jax

    jax.config.update("jax_enable_x64", True)
    return jax


def by_autograd(function, arguments):
    """Return a call that differentiates a function of arrays by HIPS autograd."""
    import autograd

    argnum = tuple(range(len(arguments)))
    differentiated = autograd.value_and_grad(function, argnum)

    def call():
        value, gradients = differentiated(*arguments)
        return float(value), [np.asarray(g) for g in gradients]

    return call


def by_casadi(function, arguments):
    """Return a call of a CasADi function of one symbolic vector: value and gradient."""
    import casadi

    (x0,) = arguments
    x = casadi.SX.sym("x", x0.size)
    value = function(x)
    compiled = casadi.Function("f", [x], [value, casadi.gradient(value, x)])

    def call():
        value, gradient = compiled(x0)
        return float(value), [np.asarray(gradient).ravel()]

    return call


def same_function(system, differentiate, *names):
    """Register workloads whose tapegrad function serves another system unchanged."""
    for name in names:

        def prepared(build=definitions.WORKLOADS[name]):
            return differentiate(*build())

        FORMS[system][name] = prepared


same_function("PyTorch", by_torch, "lorenz", "loop_square", "chain", "small")
same_function("JAX", by_jax, "chain", "small")
same_function("autograd", by_autograd, "lorenz", "small", "chain")
same_function("CasADi", by_casadi, "lorenz")


@form("PyTorch", by_torch)
def torch_lynx_hare():
    """The example's function with PyTorch's exp and log."""
    import torch

    function, arguments = definitions.lynx_hare()
    return functools.partial(function, exp=torch.exp, log=torch.log), arguments


@form("CasADi", by_casadi)
def casadi_lynx_hare():
    """The example's function with CasADi's exp and log, over the cells of a symbolic vector."""
    import casadi

    function, arguments = definitions.lynx_hare()

    def over_cells(x):
        return function(casadi.vertsplit(x), exp=casadi.exp, log=casadi.log)

    return over_cells, arguments


@form("PyTorch", by_torch)
def torch_black_scholes():
    """The same formula with PyTorch's functions."""
    import torch

    function, arguments = definitions.black_scholes()
    names = {"log": torch.log, "sqrt": torch.sqrt, "exp": torch.exp, "erf": torch.erf}
    return functools.partial(function, **names), arguments


@form("PyTorch", by_torch)
def torch_gmm():
    """The mixture with index_put and PyTorch's logsumexp."""
    import torch

    points, parameters, below = definitions.mixture()
    n, d = points.shape
    points, rows, columns = (torch.tensor(a) for a in (points, *below))

    def log_likelihood(weights, means, diagonals, lower):
        k = len(weights)
        factors = torch.zeros(k, d, d, dtype=torch.float64)
        factors = factors.index_put((torch.arange(k)[:, None], rows[None], columns[None]), lower)
        factors = factors + torch.diag_embed(torch.exp(diagonals))
        whitened = torch.einsum("kij,nkj->nki", factors, points[:, None] - means[None])
        inner = weights + diagonals.sum(1) - 0.5 * (whitened * whitened).sum(2)
        return torch.logsumexp(inner, 1).sum() - n * torch.logsumexp(weights, 0)

    return log_likelihood, parameters


@form("PyTorch", by_torch)
def torch_heat():
    """The heat equation by concatenation, which PyTorch runs faster than index writes."""
    import torch

    arguments = definitions.heat().arguments

    def energy(u):
        for _ in range(definitions.HEAT_STEPS):
            change = definitions.HEAT_K * (u[2:] - 2 * u[1:-1] + u[:-2])
            u = torch.cat((u[:1], u[1:-1] + change, u[-1:]))
        return (u * u).sum()

    return energy, arguments


@form("PyTorch", by_torch)
def torch_mlp():
    """The network with PyTorch's cross-entropy."""
    import torch

    inputs, labels, parameters = definitions.network()
    inputs, labels = torch.tensor(inputs), torch.tensor(labels)

    def cross_entropy(a, b, c, d, e, f):
        z = torch.tanh(torch.tanh(inputs @ a + b) @ c + d) @ e + f
        return torch.nn.functional.cross_entropy(z, labels)

    return cross_entropy, parameters


@form("JAX", by_jax)
def jax_lorenz():
    """The Lorenz system by scan: unrolled, the loop takes minutes to compile."""
    jax = import_jax()

    def end(p):
        def body(state, _):
            return definitions.lorenz_step(*state, p[3], p[4], p[5]), None

        state, _ = jax.lax.scan(body, (p[0], p[1], p[2]), None, length=definitions.LORENZ_STEPS)
        return state[0] ** 2 + state[1] ** 2 + state[2] ** 2

    return end, definitions.lorenz().arguments


@form("JAX", by_jax)
def jax_black_scholes():
    """The same formula with JAX's functions."""
    import_jax()
    import jax.numpy as jnp
    from jax.scipy.special import erf

    function, arguments = definitions.black_scholes()
    names = {"log": jnp.log, "sqrt": jnp.sqrt, "exp": jnp.exp, "erf": erf}
    return functools.partial(function, **names), arguments


@form("JAX", by_jax)
def jax_gmm():
    """The mixture with an indexed update and JAX's logsumexp."""
    import_jax()
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    points, parameters, (rows, columns) = definitions.mixture()
    n, d = points.shape

    def log_likelihood(weights, means, diagonals, lower):
        factors = jnp.zeros((len(weights), d, d)).at[:, rows, columns].set(lower)
        factors = factors + jnp.exp(diagonals)[:, :, None] * jnp.eye(d)
        whitened = jnp.einsum("kij,nkj->nki", factors, points[:, None] - means[None])
        inner = weights + diagonals.sum(1) - 0.5 * (whitened * whitened).sum(2)
        return logsumexp(inner, 1).sum() - n * logsumexp(weights)

    return log_likelihood, parameters


@form("JAX", by_jax)
def jax_heat():
    """The heat equation by scan and an indexed update."""
    jax = import_jax()

    def energy(u):
        def body(u, _):
            change = definitions.HEAT_K * (u[2:] - 2 * u[1:-1] + u[:-2])
            return u.at[1:-1].add(change), None

        u, _ = jax.lax.scan(body, u, None, length=definitions.HEAT_STEPS)
        return (u * u).sum()

    return energy, definitions.heat().arguments


@form("JAX", by_jax)
def jax_mlp():
    """The network with JAX's log_softmax."""
    jax = import_jax()
    import jax.numpy as jnp

    inputs, labels, parameters = definitions.network()
    batch = np.arange(len(labels))

    def cross_entropy(a, b, c, d, e, f):
        z = jnp.tanh(jnp.tanh(inputs @ a + b) @ c + d) @ e + f
        return -jax.nn.log_softmax(z)[batch, labels].mean()

    return cross_entropy, parameters


@form("autograd", by_autograd)
def autograd_black_scholes():
    """The same formula with autograd's functions."""
    import autograd.numpy as anp
    from autograd.scipy.special import erf

    function, arguments = definitions.black_scholes()
    names = {"log": anp.log, "sqrt": anp.sqrt, "exp": anp.exp, "erf": erf}
    return functools.partial(function, **names), arguments


@form("autograd", by_autograd)
def autograd_gmm():
    """The mixture with a fixed 0/1 matrix in place of index writes, which autograd lacks."""
    import autograd.numpy as anp
    from autograd.scipy.special import logsumexp

    points, parameters, (rows, columns) = definitions.mixture()
    n, d = points.shape
    places = np.zeros((len(rows), d * d))
    places[np.arange(len(rows)), rows * d + columns] = 1

    def log_likelihood(weights, means, diagonals, lower):
        factors = anp.reshape(anp.dot(lower, places), (len(weights), d, d))
        factors = factors + anp.exp(diagonals)[:, :, None] * np.eye(d)
        whitened = anp.einsum("kij,nkj->nki", factors, points[:, None] - means[None])
        inner = weights + anp.sum(diagonals, 1) - 0.5 * anp.sum(whitened * whitened, 2)
        return anp.sum(logsumexp(inner, 1)) - n * logsumexp(weights)

    return log_likelihood, parameters


@form("autograd", by_autograd)
def autograd_heat():
    """The heat equation by concatenation: autograd has no index writes."""
    import autograd.numpy as anp

    def energy(u):
        for _ in range(definitions.HEAT_STEPS):
            change = definitions.HEAT_K * (u[2:] - 2 * u[1:-1] + u[:-2])
            u = anp.concatenate((u[:1], u[1:-1] + change, u[-1:]))
        return anp.sum(u * u)

    return energy, definitions.heat().arguments


@form("autograd", by_autograd)
def autograd_mlp():
    """The network with autograd's functions."""
    import autograd.numpy as anp
    from autograd.scipy.special import logsumexp

    inputs, labels, parameters = definitions.network()
    batch = np.arange(len(labels))

    def cross_entropy(a, b, c, d, e, f):
        hidden = anp.tanh(anp.dot(anp.tanh(anp.dot(inputs, a) + b), c) + d)
        z = anp.dot(hidden, e) + f
        return anp.mean(logsumexp(z, 1) - z[batch, labels])

    return cross_entropy, parameters


@form("CasADi", by_casadi)
def casadi_small():
    """Rosenbrock's function as two sums of squares."""
    import casadi

    def rosenbrock(x):
        return casadi.sumsqr(10 * (x[1:] - x[:-1] ** 2)) + casadi.sumsqr(1 - x[:-1])

    return rosenbrock, definitions.small().arguments
