"""Code of a program's own: loops, SIMD lanes, fused element-wise kernels."""
