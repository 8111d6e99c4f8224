"""The sandbox: kernels that run model-written code, and the context files that they read."""
