"""Checks that may take long, in a process that is killed when they do.

`worker` is the process, `process` its end in the driver, `pool` the processes of a driver.
"""
