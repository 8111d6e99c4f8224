"""Fast starts: one process that has everything imported and forks a broker, with its kernel, when asked.

`client` is the driver's end. `server`, `__main__` and `kernel_child` run in the forkserver and in what it
forks; they hold trusted code only, have a clean environment and no thread until a kernel is on its own.
"""
