"""The process that owns jupyter_client. It holds no key and knows no prompt; its memory is limited, and a
hostile kernel that floods its sockets ends it and the kernel, nothing else."""
