"""What confines a process: one module for each mechanism of Linux."""
