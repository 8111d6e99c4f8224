"""The process that launches a kernel, interrupts and ends it, and removes its folder.

It reads the driver's words and the launcher's report, and nothing that a kernel or a broker says.
"""
