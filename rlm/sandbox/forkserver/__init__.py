"""Fast starts: a process that has imported everything and forks supervisors, with their kernels, on request.

`client` is the driver's end. `server`, `__main__` and `kernel_child` run in the forkserver and its forks:
they run trusted code only, in a clean environment, without threads until the kernel has its own process.
"""
