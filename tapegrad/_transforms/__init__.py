"""Functions of functions: grad, jacobian, hessian, vjp, jvp, hvp."""
